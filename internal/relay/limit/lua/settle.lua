-- ARGV[1] claim  ARGV[2] actual amount  ARGV[3] when the keys expire, ms since the epoch
--
-- Returns each changed book's name and sum; nothing when there is no such claim any more.

local changed = replace(ARGV[1], tonumber(ARGV[2]))
expire(ARGV[3])
return changed
