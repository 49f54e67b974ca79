-- KEYS[1] what is counted   ARGV[1] length of a window, ms   ARGV[2] limit   ARGV[3] amount
--
-- Adds an amount to what was used, unless that would be more than the limit. The first amount
-- begins the window. Returns 0, or if nothing was added how long the window lasts, in ms. No
-- window begins while Redis is short of memory: there are as many callers as somebody likes.

local used = tonumber(redis.call('GET', KEYS[1]) or '0')
if used + tonumber(ARGV[3]) > tonumber(ARGV[2]) then
  local left = redis.call('PTTL', KEYS[1])
  if left == -1 then -- somebody else's key: end it
    redis.call('PEXPIRE', KEYS[1], ARGV[1])
    left = tonumber(ARGV[1])
  end
  return math.max(left, 1)
end
if used == 0 and short() then return short_of_memory end
redis.call('INCRBY', KEYS[1], ARGV[3])
if used == 0 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return 0
