-- ARGV[1] the process  ARGV[2] number of its message  ARGV[3] when the keys expire, ms since the epoch
-- then for each book: name and the amount to add
--
-- Enters what a process spent while it could not reach this server. A message that comes
-- twice counts once.

local last = '#' .. ARGV[1]
if spent(last) >= tonumber(ARGV[2]) then return {} end
redis.call('HSET', KEYS[1], last, ARGV[2])
for i = 4, #ARGV, 2 do add(ARGV[i], tonumber(ARGV[i + 1])) end
expire(ARGV[3])
return {}
