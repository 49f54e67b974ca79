-- ARGV[1] id
--
-- Forgets a filter. Returns 1 if there was one.

local existed = redis.call('EXISTS', KEYS[2])
forget(ARGV[1])
return existed
