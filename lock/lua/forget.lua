-- Forget the expected nonce if the turn with the given fence contributed to it; then the lane recovers. While it is unknown, base says
-- from which turn on a holder's knowledge counts again: who holds the turn now may rely on what was forgotten.
--
-- ARGV[5]  fence
--
-- Returns 1 if it was forgotten.

load()
local from = tonumber(base)
if expected == '' or not from or tonumber(ARGV[5]) < from then return 0 end
expected, base, sure = '', int(tonumber(ARGV[5]) + 1), 'r'
keep()
return 1
