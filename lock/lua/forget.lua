-- Forget the expected nonce if the turn with the given fence contributed to it.
--
-- ARGV[6]  fence
--
-- Returns 1 if it was forgotten.

load()
local base = tonumber(state.base)
if state.expected == '' or not base or tonumber(ARGV[6]) < base then return 0 end
state.expected, state.base = '', ''
keep()
return 1
