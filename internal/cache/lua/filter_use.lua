-- ARGV[1] id   ARGV[2] time to live, ms
--
-- Returns a filter and its cursor, and lets it live on; nothing if it is gone.

local found = redis.call('HMGET', KEYS[2], 'filter', 'next')
if not found[1] then return false end
redis.call('PEXPIRE', KEYS[2], ARGV[2])
redis.call('ZADD', KEYS[1], now() + ARGV[2], ARGV[1])
live_on()
return found
