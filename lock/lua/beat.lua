-- The heartbeat of one instance, with a message over its own channel that shows whether Pub/Sub works.
--
-- KEYS[1] lock:heartbeat:instance  string, when it began and the settings of the instance, separated by a space
-- ARGV[1] settings  ARGV[2] life, ms  ARGV[3] channel
--
-- Returns when it began and what time it is, in µs by this clock. A beginning that has changed shows that it had lapsed in
-- between, even if the answer that would have said so first was lost.

local t = redis.call('TIME')
local now = t[1] .. string.sub('000000' .. t[2], -6)
local born = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+) ') or now
redis.call('SET', KEYS[1], born .. ' ' .. ARGV[1], 'PX', ARGV[2])
redis.pcall('PUBLISH', ARGV[3], 'echo')
return { tonumber(born), tonumber(now) }
