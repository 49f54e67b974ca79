-- The head of the scripts on filters.
--
-- KEYS[1] index of filters, by the time they expire   KEYS[2] the filter
-- KEYS[3] lengths of filters   KEYS[4] sum of the lengths   ARGV[2] time to live, ms

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function bytes() return tonumber(redis.call('GET', KEYS[4]) or '0') end

-- forget removes a filter and its length.
local function forget(id)
  local size = redis.call('ZSCORE', KEYS[3], id)
  if size then redis.call('DECRBY', KEYS[4], size) end
  redis.call('ZREM', KEYS[1], id)
  redis.call('ZREM', KEYS[3], id)
  redis.call('DEL', KEYS[1] .. ':' .. id)
  if redis.call('ZCARD', KEYS[3]) == 0 then redis.call('DEL', KEYS[4]) end
end

-- expire forgets filters whose time is over: some at a time, since Redis does nothing else
-- meanwhile, and more than one call can add.
local function expire()
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now(), 'LIMIT', 0, 64)) do forget(id) end
end

-- live_on keeps what all filters share for as long as the newest of them.
local function live_on()
  for _, i in ipairs({1, 3, 4}) do redis.call('PEXPIRE', KEYS[i], ARGV[2]) end
end
