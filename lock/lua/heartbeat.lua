-- The sign of life of one instance, with an echo over its own channel that shows whether
-- Pub/Sub works and how old its messages can be.
--
-- KEYS[1] lock:heartbeat:instance
-- ARGV[1] settings of the instance   ARGV[2] lifetime, ms   ARGV[3] channel   ARGV[4] number of the echo
--
-- Where publishing is not permitted there is no echo, and grants are looked for.
--
-- Returns 1 if the previous sign of life had not expired, and the server's time in µs.

local alive = redis.call('EXISTS', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.pcall('PUBLISH', ARGV[3], 'echo\n' .. ARGV[4])
local t = redis.call('TIME')
return { alive, t[1] .. string.sub('000000' .. t[2], -6) }
