-- KEYS[1] hash: what was spent in a window, by book; the number of the last message of each process, by #process
-- ARGV[1] when the key expires, ms since the epoch  ARGV[2] most books  ARGV[3] #process  ARGV[4] number of its message; 0: none
-- then for each book: name, amount, limit, and the book in common or ''
--
-- Adds amounts to books: all of them, or none if one would hold more than its limit. A message that comes twice counts once.
-- While there are as many books as may be, or Redis is short of memory, no book is begun: the one in common stands
-- for it. Amounts stay below 2^53, where Lua counts exactly.
--
-- Returns 0, or the number of the first book without room, and then each book's name and sum.

local function int(n) return string.format('%.0f', n) end
local function spent(book) return tonumber(redis.call('HGET', KEYS[1], book) or 0) end

local number = tonumber(ARGV[4])
if number > 0 and spent(ARGV[3]) >= number then return { 0 } end

local reply, refused, full = { 0 }, 0, nil -- full is looked at for a new book only
for i = 5, #ARGV, 4 do
  local book, amount, most, common = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), ARGV[i + 3]
  if common ~= '' and redis.call('HEXISTS', KEYS[1], book) == 0 then
    if full == nil then full = redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[2]) or short() end
    if full then book = common end
  end
  local sum = spent(book)
  if refused == 0 and (sum >= most or sum + amount > most) then refused = (i - 1) / 4 end
  reply[#reply + 1] = book
  reply[#reply + 1] = int(sum)
end
if refused > 0 then
  reply[1] = refused
  return reply
end

if number > 0 then redis.call('HSET', KEYS[1], ARGV[3], ARGV[4]) end
for i = 2, #reply, 2 do
  local sum = math.max(spent(reply[i]) + tonumber(ARGV[2 * i + 2]), 0)
  if sum == 0 then -- an empty book takes no room
    redis.call('HDEL', KEYS[1], reply[i])
  else
    redis.call('HSET', KEYS[1], reply[i], int(sum))
  end
  reply[i + 1] = int(sum)
end
if redis.call('PTTL', KEYS[1]) == -1 then redis.call('PEXPIREAT', KEYS[1], ARGV[1]) end
return reply
