-- KEYS[1] promise:{fleet}:alive     KEYS[2] promise:{fleet}:of:<id>, that of the process that asks
-- ARGV[1] the process   ARGV[2] ms that its hash outlives its last sign of life
-- ARGV[3] ms without a sign of life after which a process is dead   ARGV[4] how many promises to take, about
-- ARGV[5] the name of a hash without its process
--
-- Moves promises of one dead process to the process that asks: as one script, so that no other takes
-- them too. Returns the dead process, and for each promise its transaction hash and what was promised; or nothing.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local dead
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[3], 'LIMIT', 0, 2)) do
  if id ~= ARGV[1] then dead = id break end
end
if not dead then return {} end
local from, taken, cursor = ARGV[5] .. dead, {}, '0'
repeat
  local page = redis.call('HSCAN', from, cursor, 'COUNT', 128)
  cursor = page[1]
  for _, word in ipairs(page[2]) do taken[#taken + 1] = word end
until cursor == '0' or #taken >= 2 * ARGV[4]
for i = 1, #taken, 2 do
  redis.call('HSET', KEYS[2], taken[i], taken[i + 1])
  redis.call('HDEL', from, taken[i])
end
if #taken > 0 then
  redis.call('ZADD', KEYS[1], now, ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
end
if redis.call('EXISTS', from) == 0 then redis.call('ZREM', KEYS[1], dead) end
table.insert(taken, 1, dead)
return taken
