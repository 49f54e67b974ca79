-- The books of one window. This file is prepended to every script that follows it.
--
-- KEYS[1] …:spent   hash, what was spent by book, claims included
-- KEYS[2] …:lapses  sorted set, the claims by the time at which they lapse
-- KEYS[3] …:claims  hash, claim to its amount and its books, one a line
--
-- All keys end with their window. Amounts stay below 2^53, where Lua counts exactly.

local function int(n) return string.format('%.0f', n) end

local function spent(book) return tonumber(redis.call('HGET', KEYS[1], book) or 0) end

-- An empty book takes no room.
local function add(book, amount)
  local sum = spent(book) + amount
  if sum <= 0 then
    redis.call('HDEL', KEYS[1], book)
    return 0
  end
  redis.call('HSET', KEYS[1], book, int(sum))
  return sum
end

-- replace puts the actual amount of a claim in the place of the claimed one, and returns
-- the books with their new sums.
local function replace(claim, actual)
  local record = redis.call('HGET', KEYS[3], claim)
  redis.call('ZREM', KEYS[2], claim)
  if not record then return {} end
  redis.call('HDEL', KEYS[3], claim)
  local amount, changed = nil, {}
  for line in string.gmatch(record, '[^\n]+') do
    if not amount then
      amount = tonumber(line)
    else
      changed[#changed + 1] = line
      changed[#changed + 1] = int(add(line, actual - amount))
    end
  end
  return changed
end

-- expire sees to it that every key that a script may have made ends.
local function expire(at)
  for _, key in ipairs(KEYS) do
    if redis.call('PTTL', key) == -1 then redis.call('PEXPIREAT', key, at) end
  end
end
