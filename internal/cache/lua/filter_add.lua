-- ARGV[1] id   ARGV[2] time to live, ms   ARGV[3] maximum number of filters
-- ARGV[4] filter   ARGV[5] cursor   ARGV[6] maximum bytes of all filters
--
-- Keeps a filter, unless Redis is short of memory. When there are too many filters, those
-- that were not used for longest make room. When they have too many bytes, the longest
-- filters make room: small ones do not give way to a flood of large ones.

expire()
local size = #ARGV[4]
if size > tonumber(ARGV[6]) then return redis.error_reply('ERR the filter is too long') end
if short() then return short_of_memory end
while redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) do
  forget(redis.call('ZRANGE', KEYS[1], 0, 0)[1])
end
while bytes() + size > tonumber(ARGV[6]) do
  local longest = redis.call('ZREVRANGE', KEYS[3], 0, 0)[1]
  if not longest then break end
  forget(longest)
end
redis.call('HSET', KEYS[2], 'filter', ARGV[4], 'next', ARGV[5])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
redis.call('ZADD', KEYS[1], now() + ARGV[2], ARGV[1])
redis.call('ZADD', KEYS[3], size, ARGV[1])
redis.call('INCRBY', KEYS[4], size)
live_on()
