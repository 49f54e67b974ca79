-- A verdict, for those who have the turn later. A bad one makes the expected nonce void if the turn with the given fence contributed to it;
-- then the lane recovers. While it is unknown, base says from which turn on a holder's knowledge counts again: who holds the turn now
-- may rely on what was forgotten. Or the network has refused what went ahead of the expected nonce, which proves that it is missing.
--
-- ARGV[5]  fence, or 0
-- ARGV[6]  the nonce that is missing, or empty
--
-- Returns 1 if the state has changed.

load()
local from = tonumber(base)
if expected ~= '' and from and tonumber(ARGV[5]) >= from then
  expected, base, sure = '', int(tonumber(ARGV[5]) + 1), 'r'
elseif expected ~= '' and expected == ARGV[6] and (sure == '' or sure == 'a') then
  sure = 'g'
else
  return 0
end
keep()
return 1
