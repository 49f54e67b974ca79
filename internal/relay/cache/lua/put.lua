-- KEYS[1] the value's key   ARGV[1] value   ARGV[2] time to live, ms
--
-- Keeps a value, unless Redis is short of memory.

if short() then return short_of_memory end
return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
