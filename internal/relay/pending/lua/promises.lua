-- KEYS[1] promise:{fleet}:alive     sorted set: the processes that have promises; score = their last sign of life, ms
-- KEYS[2] promise:{fleet}:of:<id>   hash: of one process, transaction hash to what was promised
-- ARGV[1] the process   ARGV[2] ms that its hash outlives its last sign of life   ARGV[3] how many come
-- then for each that comes: transaction hash, what was promised; and for each that goes: transaction hash
--
-- Keeps promises, ends others, and gives a sign of life. None is added while Redis is short of memory.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local come = tonumber(ARGV[3])
local full = come > 0 and short()
if not full then
  for i = 4, 3 + 2 * come, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
end
for i = 4 + 2 * come, #ARGV do redis.call('HDEL', KEYS[2], ARGV[i]) end
if redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('ZADD', KEYS[1], now, ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
else
  redis.call('ZREM', KEYS[1], ARGV[1])
end
if full then return short_of_memory end
return 0
