-- ARGV[1] claim  ARGV[2] amount  ARGV[3] ms until it lapses  ARGV[4] when the keys expire, ms since the epoch
-- ARGV[5] most books; then for each book: name, limit, and the book in common or ''
--
-- While there are as many books as may be, or Redis is short of memory, no book is begun: the one in common stands
-- for it.
--
-- Returns 0, or the number of the first book without room, and then each book's name and sum.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
for _, claim in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', int(now), 'LIMIT', 0, 100)) do
  replace(claim, 0)
end

local amount, full = tonumber(ARGV[2]), nil -- looked at for a new book only
local reply, record, refused = { 0 }, ARGV[2], 0
for i = 6, #ARGV, 3 do
  local book, most, common = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  if common ~= '' and redis.call('HEXISTS', KEYS[1], book) == 0 then
    if full == nil then full = redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[5]) or short() end
    if full then book = common end
  end
  local sum = spent(book)
  if refused == 0 and (sum >= most or sum + amount > most) then refused = (i - 3) / 3 end
  reply[#reply + 1] = book
  reply[#reply + 1] = int(sum)
  record = record .. '\n' .. book
end
if refused > 0 then
  reply[1] = refused
  return reply
end

for i = 2, #reply, 2 do reply[i + 1] = int(add(reply[i], amount)) end
redis.call('HSET', KEYS[3], ARGV[1], record)
redis.call('ZADD', KEYS[2], int(now + tonumber(ARGV[3])), ARGV[1])
expire(ARGV[4])
return reply
