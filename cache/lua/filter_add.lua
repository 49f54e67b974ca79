-- KEYS[1] index of filters, by the time they expire   KEYS[2] the filter
-- ARGV[1] id   ARGV[2] time to live, ms   ARGV[3] most filters   ARGV[4] filter   ARGV[5] cursor
--
-- Keeps a filter. Those that were not used for longest make room.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
while redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) do
  redis.call('DEL', KEYS[1] .. ':' .. redis.call('ZPOPMIN', KEYS[1])[1])
end
redis.call('HSET', KEYS[2], 'filter', ARGV[4], 'next', ARGV[5])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
