-- Join the queue, or take the lock at once if it is free and nobody is before; adopt a
-- turn that the server has lost; look whether anybody can go. Repeating it is harmless.
--
-- ARGV[6]  1 = the places may be in the queue already: add those that are not
-- ARGV[7]  1 = a free lock may be taken; 0 = only queue, since its owner may still have to adopt it
-- ARGV[8]  expected nonce to raise the state to, or empty
-- ARGV[9..12]  session, nonce, fence and ms left of a turn to adopt; an empty session is none
-- ARGV[13] 1 = the turn came from here, so it is not adopted if there was a later one
-- ARGV[14] session of the turn that the caller has and knows the end of, or empty
-- ARGV[15] until when a place that is ahead may wait, in ms by the clock of this server; 0 = not at all
-- ARGV[16…]    session and nonce of each place, in order
--
-- Returns owner, ms left of it if it is the caller's and news to it (else -1), ms until the first in the queue may
-- go (or -1), how many places had to be added again, and 1 if the turn was refused.

load()
local again, take = ARGV[6] == '1', ARGV[7] == '1'
local given, changed, rejoined, refused = false, false, 0, 0

if ARGV[9] ~= '' then
  -- Whatever this process owns belongs to the turn that it is in: under a former name,
  -- or by the place of another of its tickets, which then joins again.
  local member, ours = ARGV[9] .. '|' .. caller, owner and process(owner.instance) == process(caller)
  if ours or (not owner and (ARGV[13] ~= '1' or tonumber(ARGV[11]) >= state.fence)) then
    if not ours or owner.member ~= member then
      if not ours then state.fence = math.max(state.fence, tonumber(ARGV[11])) end
      redis.call('ZREM', KEYS[4], member)
      own(member, ARGV[10], ARGV[12])
    end
  else
    refused = 1
  end
end

if ARGV[8] ~= '' and (state.expected == '' or tonumber(ARGV[8]) > tonumber(state.expected)) then
  -- It comes from outside the lane: the lane's own chain ends here.
  state.expected, state.base, state.sure = ARGV[8], owner and int(state.fence) or '', ''
  changed = true
end

local places = (#ARGV - 15) / 2
local alone = false
if places == 1 and not again and not owner and take then
  local expected = tonumber(state.expected)
  if window == 0 or (expected and tonumber(ARGV[17]) <= expected) then
    alone = redis.call('LLEN', KEYS[2]) == 0
  end
end

if alone then
  give(ARGV[16] .. '|' .. caller, ARGV[17])
  given = true
elseif places > 0 then
  local entries, members = {}, {}
  for i = 16, #ARGV, 2 do
    local member = ARGV[i] .. '|' .. caller
    local there = again and ((owner and owner.member == member) or redis.call('ZSCORE', KEYS[4], member))
    if not there then
      entries[#entries + 1] = member .. '|' .. ARGV[i + 1] .. '|' .. ARGV[15]
      members[#members + 1] = ARGV[i + 1]
      members[#members + 1] = member
    end
  end
  local length = 0
  if #entries > 0 then
    length = redis.call('RPUSH', KEYS[2], unpack(entries))
    redis.call('ZADD', KEYS[4], unpack(members))
    if again then rejoined = #entries end
  end
  if again or length == #entries then
    redis.call('PEXPIRE', KEYS[2], ARGV[4])
    redis.call('PEXPIRE', KEYS[4], ARGV[4])
  end
end

if not owner and take then
  pass_on()
  given = owner ~= nil
end
if changed and not given and not saved then keep() end

local left = -1
if owner and owner.instance == caller and (given or owner.session ~= ARGV[14]) then
  left = given and tonumber(hold) or redis.call('PTTL', KEYS[1])
end
return { owner_text(), left, wait, rejoined, refused }
