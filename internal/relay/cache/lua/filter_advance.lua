-- KEYS[1] the filter   ARGV[1] where its cursor was   ARGV[2] where it is to be   ARGV[3] who moves it
--
-- Moves the cursor, unless another poll has been faster. Returns 1 if it was moved, also
-- when the same caller had moved it already and did not hear of it.

local now = redis.call('HMGET', KEYS[1], 'next', 'by')
if now[1] == ARGV[1] then
  redis.call('HSET', KEYS[1], 'next', ARGV[2], 'by', ARGV[3])
  return 1
end
if now[2] == ARGV[3] then return 1 end
return 0
