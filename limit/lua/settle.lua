-- ARGV[1] claim  ARGV[2] actual amount
--
-- Returns each changed book's name and sum; nothing when there is no such claim any more.

return replace(ARGV[1], tonumber(ARGV[2]))
