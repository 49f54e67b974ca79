-- The head of the scripts on filters.
--
-- KEYS[1] index of filters, by the time they expire   KEYS[2] the filter
-- KEYS[3] lengths of filters   KEYS[4] sum of the lengths
-- KEYS[5] clients of filters   KEYS[6] numbers of filters of clients   ARGV[2] time to live, ms

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function bytes() return tonumber(redis.call('GET', KEYS[4]) or '0') end

-- those_of is the index of the filters of one client.
local function those_of(client) return KEYS[1] .. ':of:' .. client end

-- forget removes a filter, its length and its client.
local function forget(id)
  local client = redis.call('HGET', KEYS[5], id)
  if client then
    redis.call('HDEL', KEYS[5], id)
    redis.call('ZREM', those_of(client), id)
    if tonumber(redis.call('ZINCRBY', KEYS[6], -1, client)) <= 0 then redis.call('ZREM', KEYS[6], client) end
  end
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

-- live_on keeps a filter, and what it shares with others, for its time to live.
local function live_on(id, client)
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
  local ends = now() + ARGV[2]
  redis.call('ZADD', KEYS[1], ends, id)
  if client then
    redis.call('ZADD', those_of(client), ends, id)
    redis.call('PEXPIRE', those_of(client), ARGV[2])
  end
  for _, i in ipairs({1, 3, 4, 5, 6}) do redis.call('PEXPIRE', KEYS[i], ARGV[2]) end
end
