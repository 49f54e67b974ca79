-- KEYS[1] index of filters   KEYS[2] the filter   ARGV[1] id   ARGV[2] time to live, ms
--
-- Returns a filter and its cursor, and lets it live on; nothing if it is gone.

local found = redis.call('HMGET', KEYS[2], 'filter', 'next')
if not found[1] then return false end
local time = redis.call('TIME')
redis.call('PEXPIRE', KEYS[2], ARGV[2])
redis.call('ZADD', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return found
