-- ARGV[1] id   ARGV[2] time to live, ms
--
-- Returns a filter and its cursor, and lets it live on; nothing if it is gone.

local found = redis.call('HMGET', KEYS[2], 'filter', 'next')
if not found[1] then return false end
live_on(ARGV[1], redis.call('HGET', KEYS[5], ARGV[1]))
return found
