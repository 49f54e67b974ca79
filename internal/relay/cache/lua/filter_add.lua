-- ARGV[1] id   ARGV[2] time to live, ms   ARGV[3] maximum number of filters
-- ARGV[4] filter   ARGV[5] cursor   ARGV[6] maximum bytes of all filters   ARGV[7] client
--
-- Keeps a filter, unless Redis is short of memory. When there are too many filters, the
-- client that has most of them loses the one that was not used for longest. When they have
-- too many bytes, the longest filters make room: small ones do not give way to a flood of
-- large ones.

-- oldest returns the filter that makes room. A client may seem to have filters that it has
-- not: a relay of an earlier version does not know of clients.
local function oldest()
  while true do
    local client = redis.call('ZREVRANGE', KEYS[6], 0, 0)[1]
    if not client then return redis.call('ZRANGE', KEYS[1], 0, 0)[1] end
    for _, id in ipairs(redis.call('ZRANGE', those_of(client), 0, 0)) do
      if redis.call('ZSCORE', KEYS[1], id) then return id end
    end
    redis.call('ZREM', KEYS[6], client)
    redis.call('DEL', those_of(client))
  end
end

expire()
local size = #ARGV[4]
if size > tonumber(ARGV[6]) then return redis.error_reply('ERR the filter is too long') end
if short() then return short_of_memory end
while redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) do
  forget(oldest())
end
while bytes() + size > tonumber(ARGV[6]) do
  local longest = redis.call('ZREVRANGE', KEYS[3], 0, 0)[1]
  if not longest then break end
  forget(longest)
end
redis.call('HSET', KEYS[2], 'filter', ARGV[4], 'next', ARGV[5])
redis.call('ZADD', KEYS[3], size, ARGV[1])
redis.call('INCRBY', KEYS[4], size)
redis.call('HSET', KEYS[5], ARGV[1], ARGV[7])
redis.call('ZINCRBY', KEYS[6], 1, ARGV[7])
live_on(ARGV[1], ARGV[7])
