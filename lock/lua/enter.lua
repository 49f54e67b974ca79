-- Join the queue, or take the lock at once if it is free and nobody is before; adopt a
-- turn that the server has lost; look whether anybody can go. Repeating it is harmless.
--
-- ARGV[5]  1 = the places may be in the queue already: add those that are not
-- ARGV[6]  1 = a free lock may be taken; 0 = only queue, since its owner may still have to adopt it
-- ARGV[7]  expected nonce to raise the state to, or empty
-- ARGV[8..11]  session, nonce, fence and ms left of a turn to adopt; an empty session is none
-- ARGV[12] 1 = the turn came from here, so it is not adopted if there was a later one
-- ARGV[13] session of the turn that the caller has and knows the end of, or empty
-- ARGV[14] how long the first of the places may wait if it is ahead, ms
-- ARGV[15…]    session, nonce and end of the window of each place, in order: in ms by the clock of this server,
--              or 0 if it does not wait for a predecessor
--
-- Returns owner, ms left of it if it is the caller's and news to it (else -1), ms until the first in the queue may
-- go (or -1), how many places had to be added again, and 1 if the turn was refused.

load()
local again, take = ARGV[5] == '1', ARGV[6] == '1'
local given, changed, rejoined, refused = false, false, 0, 0

if ARGV[8] ~= '' then
  if not (is_ours(2) and is_ours(4)) then return not_ours() end
  -- Whatever this process owns belongs to the turn that it is in: under a former name,
  -- or by the place of another of its tickets, which then joins again.
  local member = ARGV[8] .. '|' .. caller
  local ours = owner and process(owner) == process(member)
  if ours or (not owner and (ARGV[12] ~= '1' or tonumber(ARGV[10]) >= tonumber(fence))) then
    if owner ~= member then
      if not ours then fence = int(math.max(tonumber(fence), tonumber(ARGV[10]))) end
      redis.call('ZREM', KEYS[4], member)
      own(member, ARGV[9], ARGV[11])
    end
  else
    refused = 1
  end
end

if ARGV[7] ~= '' and tonumber(ARGV[7]) > (tonumber(expected) or -1) then
  -- It comes from outside the lane: the lane's own chain ends here.
  expected, base, sure = ARGV[7], owner and fence or '', (sure == 'r' or sure == 'R') and sure or ''
  changed = true
end

local places = (#ARGV - 14) / 3
if places == 1 and not again and not owner and take and ready(ARGV[16], ARGV[17])
  and redis.call('ZCOUNT', KEYS[4], '-inf', ARGV[17] == '0' and '+inf' or expected) == 0 then
  -- Nobody is before it, but for those who wait for a predecessor.
  give(ARGV[15] .. '|' .. caller, ARGV[16])
  given, places = true, 0
end

local first = false -- the queue was empty, and who is first in it now is ahead
if places > 0 then
  local entries, members, ahead = {}, {}, true
  for i = 15, #ARGV, 3 do
    local member = ARGV[i] .. '|' .. caller
    local there = again and (owner == member or redis.call('ZSCORE', KEYS[4], member))
    if not there then
      entries[#entries + 1] = member .. '|' .. ARGV[i + 1] .. '|' .. ARGV[i + 2]
      members[#members + 1] = ARGV[i + 1]
      members[#members + 1] = member
      ahead = ahead and not ready(ARGV[i + 1], ARGV[i + 2])
    end
  end
  local length = 0
  if #entries > 0 then
    length = redis.call('RPUSH', KEYS[2], unpack(entries))
    if type(redis.pcall('ZADD', KEYS[4], unpack(members))) == 'table' then
      if length == #entries then redis.call('DEL', KEYS[2]) end -- else they are skipped, as places that were left
      return not_ours()
    end
    if again then rejoined = #entries end
  end
  first = ahead and length > 0 and length == #entries
  if again or length == #entries then
    redis.call('PEXPIRE', KEYS[2], ARGV[4])
    redis.call('PEXPIRE', KEYS[4], ARGV[4])
  end
end

if not owner and take then
  if first then
    wait = tonumber(ARGV[14])
    set_free()
  else
    pass_on()
    given = owner ~= nil
  end
end
if broken then return not_ours() end
if changed and not given and not saved then keep() end

local left = -1
if owner and is_of(owner, caller) and (given or string.sub(owner, 1, #ARGV[13] + 1) ~= ARGV[13] .. '|') then
  left = given and tonumber(ARGV[2]) or redis.call('PTTL', KEYS[1])
end
return { text or '', left, wait, rejoined, refused }
