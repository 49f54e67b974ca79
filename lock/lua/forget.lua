-- Forget the expected nonce if the turn with the given fence contributed to it. While it is unknown, base says
-- from which turn on a holder's knowledge counts again: who holds the turn now may rely on what was forgotten.
--
-- ARGV[6]  fence
--
-- Returns 1 if it was forgotten.

load()
local from = tonumber(base)
if expected == '' or not from or tonumber(ARGV[6]) < from then return 0 end
expected, base, sure = '', int(tonumber(ARGV[6]) + 1), ''
keep()
return 1
