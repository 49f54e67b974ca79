-- KEYS[1] quota:{<holder>}:<what>   ARGV[1] length of a window, ms   ARGV[2] limit   ARGV[3] amount
--
-- Adds an amount to what a holder has used, unless that would be more than the limit. The
-- first amount begins the window. Returns 1, or 0 if nothing was added.

local amount = tonumber(ARGV[3])
local used = tonumber(redis.call('GET', KEYS[1]) or '0')
if used + amount > tonumber(ARGV[2]) then
  if used > 0 and redis.call('PTTL', KEYS[1]) < 0 then -- somebody else's key: end it
    redis.call('PEXPIRE', KEYS[1], ARGV[1])
  end
  return 0
end
redis.call('INCRBY', KEYS[1], amount)
if used == 0 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return 1
