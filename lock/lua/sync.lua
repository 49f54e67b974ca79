-- One relay states everything that it wants to be true of a lane, and the script makes it so. It may be repeated, lost or late.
--
-- ARGV[5..9]   its claim: session (empty = nobody waits there), lowest nonce, since, and how long its first window lasts,
--              in µs (empty = no window); 1 = the claim has been stated before,
--              2 = with the same oldest
-- ARGV[10..12] the turn that it has: fence (empty = none), session, ms left
-- ARGV[13..17] every turn of its own up to this fence has ended; the state that the last one leaves: expected, base, sure, last (empty = as it is)
-- ARGV[18] a nonce seen outside the lane, or empty  ARGV[19] newest turn with a bad verdict, or 0  ARGV[20] a nonce proven missing, or empty
-- ARGV[21] 1 = a free lock may be given; 0 = its owner may still have to state that it has it, and so if the claim was lost
--
-- Returns the owner's value, ms left of it if it is the caller's and news, ms until somebody may go (or -1), 1 if the turn was
-- refused, 1 if the claim was lost, and how many values of somebody else were removed.

if not load() then return not_ours() end
local turn, refused, lost = tonumber(ARGV[10]), 0, 0

if owner == me and tonumber(fence) <= tonumber(ARGV[13]) and tonumber(fence) ~= turn then
  if ARGV[17] ~= '' then
    local mine = tonumber(ARGV[14])
    if not mine and ARGV[16] == 'r' then mine = 0 end -- nothing is proven
    local more = mine and mine < (tonumber(expected) or 0)
    local raised = base == '' or tonumber(base) >= tonumber(fence) -- since the turn began, by another process
    -- What began before a verdict was bad does not count, nor does what another process has seen more of meanwhile. A holder
    -- that recovers knows less than was known before its turn, and is right.
    local found = sure == 'R'
    if expected == '' and base ~= '' and (tonumber(ARGV[15]) or 0) < tonumber(base) then
      base = ''
    elseif not more or ARGV[16] == 'r' and not raised then
      -- That a nonce is missing may have been proven meanwhile.
      local gap = sure == 'g' and mine == tonumber(expected) and (ARGV[16] == '' or ARGV[16] == 'a')
      expected, base, sure = ARGV[14], ARGV[15], gap and 'g' or ARGV[16]
    elseif ARGV[16] == 'r' then
      sure = 'r'
    end
    if found then sure = 'r' end
    last = ARGV[17]
  elseif sure == 'R' then
    sure = 'r'
  end
  owner, fence, changed = nil, int(tonumber(fence) + 1), true -- a late request does not begin it once more
end

if turn and not broken then
  if owner == me or not owner and turn >= tonumber(fence) then
    if owner ~= me or turn > tonumber(fence) or session ~= ARGV[11] then
      fence = int(math.max(turn, tonumber(fence)))
      if not own(ARGV[11], me, ARGV[12]) then return not_ours() end
    end
  else
    refused = 1
  end
end

if ARGV[18] ~= '' and tonumber(ARGV[18]) > (tonumber(expected) or -1) then
  -- It comes from outside the lane: the lane's own chain ends here.
  expected, base, sure, changed = ARGV[18], owner and fence or '', (sure == 'r' or sure == 'R') and sure or '', true
end
-- A bad verdict makes the expected nonce void if the turn contributed to it. While it is unknown, base says from which turn on
-- a holder's knowledge counts again.
if expected ~= '' and base ~= '' and tonumber(ARGV[19]) >= tonumber(base) then
  expected, base, sure, changed = '', int(tonumber(ARGV[19]) + 1), 'r', true
elseif expected ~= '' and expected == ARGV[20] and (sure == '' or sure == 'a') then
  sure, changed = 'g', true
end

local since = tonumber(ARGV[7])
for i, c in ipairs(broken and {} or claims) do
  if c.instance == me then
    lost = -1 -- it is here
    if ARGV[9] == '2' then since = math.min(since, tonumber(c.since)) end
    redis.call('LREM', KEYS[2], 1, table.remove(claims, i).text)
    break
  end
end
if ARGV[5] ~= '' and owner ~= me then -- the end of a turn states the claim anew
  lost = lost + math.min(tonumber(ARGV[9]), 1) > 0 and 1 or 0
  -- It did not come later than its claim: so whoever comes after that is behind it, however wrong its relay is about this clock.
  local c = { instance = me, session = ARGV[5], nonce = ARGV[6], since = int(math.min(since, now())) }
  c.till = ARGV[8] ~= '' and int(now() + tonumber(ARGV[8])) or '0'
  c.text = me .. '|' .. c.session .. '|' .. c.nonce .. '|' .. c.since .. '|' .. c.till
  claims[#claims + 1] = c
end
local trouble = finish(ARGV[21] == '1' and lost < 1)
if trouble then return trouble end
local left = -1
if given then left = tonumber(ARGV[2]) elseif owner == me and not turn then left = redis.call('PTTL', KEYS[1]) end
return { owner and session .. '|' .. owner .. '|' .. state() or '', owner == me and left or -1, wait, refused, math.max(lost, 0), cleared }
