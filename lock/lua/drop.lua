-- End what another relay has in a lane: all of it, because it is dead, or one turn, by force. What that owner has sent is not
-- known, so the expected nonce is forgotten, and the lane recovers. A later turn, and a claim that is not asked for, stay.
--
-- ARGV[5] the instance  ARGV[6] its turns up to this fence end  ARGV[7] 1 = its claim goes, too  ARGV[8] 1 = a free lock may be given
--
-- Returns how many turns and claims were removed.

if not load() then return not_ours() end
local removed = 0
for i, c in ipairs(claims) do
  if c.instance == ARGV[5] and ARGV[7] == '1' then
    redis.call('LREM', KEYS[2], 1, table.remove(claims, i).text)
    removed, sure, changed = 1, owner and 'R' or 'r', true
    break
  end
end
if owner == ARGV[5] and tonumber(fence) <= tonumber(ARGV[6]) then
  hint(owner)
  removed, owner, fence, changed = removed + 1, nil, int(tonumber(fence) + 1), true
  expected, base, sure = '', '', 'r'
end
return removed > 0 and finish(ARGV[8] == '1') or removed
