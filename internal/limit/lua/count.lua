-- KEYS[1] ratelimit:<address>:<method>   ARGV[1] length of a window, ms   ARGV[2] most calls
--
-- Counts a call. The first one begins the window. Returns the count, and for one too many
-- how long the window lasts, in ms. No window begins while Redis is short of memory: there
-- are as many addresses as somebody likes.

local count = redis.call('INCR', KEYS[1])
if count == 1 then
  if short() then
    redis.call('DEL', KEYS[1])
    return short_of_memory
  end
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return { count, 0 }
end
if count <= tonumber(ARGV[2]) then return { count, 0 } end
local left = redis.call('PTTL', KEYS[1])
if left < 0 then -- somebody else's key, or one whose first caller died: end it
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  left = tonumber(ARGV[1])
end
return { count, left }
