-- Take the lock and the places of an instance that is dead, or the lock of one session by
-- force, and give the turn to the next. What that owner has sent is not known, so the
-- expected nonce is forgotten, and the lane recovers. Nothing happens if the owner is another by now.
--
-- ARGV[5]  instance that is dead, or empty
-- ARGV[6]  session to remove by force, or empty
-- ARGV[7]  1 = a free lock may be given to the next; 0 = its owner may still have to adopt it
--
-- Returns how many locks and places were removed, then as enter does.

load()
local removed, given, taken = 0, false, false

if ARGV[5] ~= '' then
  local gone = {}
  for _, member in ipairs(redis.call('ZRANGE', KEYS[4], 0, -1)) do
    if is_of(member, ARGV[5]) then
      gone[#gone + 1] = member
      if #gone == 1000 then
        removed = removed + redis.call('ZREM', KEYS[4], unpack(gone))
        gone = {}
      end
    end
  end
  if #gone > 0 then removed = removed + redis.call('ZREM', KEYS[4], unpack(gone)) end
end

if owner and (is_of(owner, ARGV[5]) or string.sub(owner, 1, #ARGV[6] + 1) == ARGV[6] .. '|') then
  removed = removed + 1
  tell('lost')
  owner = nil
  expected, base, sure = '', '', 'r'
  -- Its turn is over, whatever it thinks: with a later number here it cannot adopt it again.
  fence = int(tonumber(fence) + 1)
  taken = true
end
if owner then
  if removed > 0 then
    sure = 'R'
    keep()
  end
else
  if removed > 0 then sure = 'r' end
  if ARGV[7] == '1' then
    pass_on(taken)
    given = owner ~= nil
  elseif taken then
    set_free(true)
  end
end

if broken then return not_ours() end
local left = -1
if owner and is_of(owner, caller) then
  left = given and tonumber(ARGV[2]) or redis.call('PTTL', KEYS[1])
end
return { removed, owner and text or '', left, wait }
