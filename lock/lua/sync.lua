-- One relay states everything that it wants to be true of a lane, and the script makes it so. It may be repeated, lost or late.
--
-- KEYS[1] lock:{address}         string, session|instance|state: whose turn it is; expires at the hold limit
-- KEYS[2] lock:queue:{address}   list, instance|session|nonce|since|until: one claim for each relay in which somebody waits
-- KEYS[3] lock:memory:{address}  string, the state while nobody has the turn
-- state:  fence|expected|base|sure|lastfence|node|txid (an empty field is unknown)
-- sure:   1 = expected is the lane's own work; r = the lane recovers, R = since the present turn began; empty = none of these, nor:
--         a = one that was ahead of expected is judged by the network; g = the network has refused it, so expected is missing
-- since, until: when its oldest began to wait, and the first window ends, in µs by this clock; until is 0 without a window
--
-- Returns the owner's value, ms left of it if it is the caller's and news, ms until somebody may go (or -1), 1 if the turn was
-- refused, 1 if the claim was lost, how many values of somebody else were removed, how many turns and claims of the other relay, and, if
-- there is a claim, what the fence of every turn exceeds that is given after this, by whichever server.

local me, hold, memory, life, -- the caller's instance; in ms the hold limit, how long an idle lane is remembered, and an untouched queue kept
  claimed, lowest, age, window, known, -- its claim: session (empty = nobody waits there), lowest nonce, µs that its oldest has waited and its first window still
  -- lasts (empty = it has none); 1 = the claim has been stated before, 2 = with the same oldest
  turn, key, left, -- the turn that it has: fence (empty = none), session, ms left
  ended, leaves, leavesBase, leavesSure, leavesLast, -- every turn of its own up to this fence has ended; the state that the last one leaves:
  -- expected, base, sure, last (empty = as it is)
  observed, bad, missing, -- a nonce seen outside the lane, or empty; the newest turn with a bad verdict, or 0; a nonce proven missing, or empty
  take, -- 1 = a free lock may be given; 0 = its owner may still have to state that it has it, and so if the claim was lost
  other, upTo, dead = unpack(ARGV) -- another relay whose turns up to this fence end, by force (empty = none); 1 = it is dead, and its claim goes, too
turn, ended, bad = tonumber(turn), tonumber(ended), tonumber(bad)
local session, owner, fence, expected, base, sure, last -- owner is an instance, nil while the lock is free
local changed = false -- whether the state differs from what is in the keys
local wait, news, refused, lost, cleared, removed = -1, -1, 0, 0, 0, 0
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function int(n) return string.format('%.0f', n) end
local function not_ours() return { err = "WRONGTYPE somebody else's value is in the keys of a lane" } end

-- clear removes somebody else's value that would stay for ever. What is ours has an end of life, and so has what another version wrote.
local function clear(name)
  local stays = redis.call('PTTL', name) == -1
  if stays then cleared = cleared + redis.call('DEL', name) end
  return stays
end

-- Read. Where somebody else has written the lock nothing can be done; where the queue, a turn can still end, and nobody is given the next.
local locked, remembered = unpack(redis.call('MGET', KEYS[1], KEYS[3]))
local value = locked -- what is in the lock at the end
if locked then
  session, owner, fence, expected, base, sure, last = string.match(locked, '^([^|]+)|([^|]+)|(%d+)|(%d*)|(%d*)|(%w?)|(.*)$')
  if not owner and not clear(KEYS[1]) then return not_ours() end
  if not owner then locked = nil end
end
if remembered and not locked then fence, expected, base, sure, last = string.match(remembered, '^(%d+)|(%d*)|(%d*)|(%w?)|(.*)$') end
if not fence then fence, expected, base, sure, last = 0, '', '', '', '||' end
fence = tonumber(fence)
local list, claims = redis.pcall('LRANGE', KEYS[2], 0, -1), {}
local broken = list.err
for i, text in ipairs(list) do
  local c = { text = text }
  c.instance, c.session, c.nonce, c.since, c.till = string.match(text, '^([^|]+)|([^|]+)|(%d+)|(%d+)|(%d+)$')
  if not c.till then broken = true break end
  claims[i] = c
end
if broken and clear(KEYS[2]) then claims, broken = {}, nil end
local function state() return int(fence) .. '|' .. expected .. '|' .. base .. '|' .. sure .. '|' .. last end

-- hint asks an instance to look at the lane, or shows it that it has the turn. Where that is not permitted, those who wait find out by looking.
local function hint(instance, value) redis.pcall('PUBLISH', 'lock:grants:' .. instance, KEYS[1] .. (value and ' ' .. value or '')) end

local function own(its, instance, px)
  session, owner = its, instance
  value = its .. '|' .. instance .. '|' .. state()
  local set = redis.call('SET', KEYS[1], value, locked and 'XX' or 'NX', 'PX', px)
  if not set and clear(KEYS[1]) then set = redis.call('SET', KEYS[1], value, 'PX', px) end -- another kind of value
  if set and remembered then redis.call('DEL', KEYS[3]) end
  locked, remembered, changed = set, false, false
  return set
end

-- free takes the claim of an instance out of the queue.
local function free(instance)
  for i, c in ipairs(broken and {} or claims) do
    if c.instance == instance then
      redis.call('LREM', KEYS[2], 1, table.remove(claims, i).text)
      return c
    end
  end
end

-- The other relay. What it has sent is not known, so the expected nonce is forgotten, and the lane recovers. A later turn of it stays.
if dead == '1' and free(other) then removed, sure, changed = 1, owner and 'R' or 'r', true end
if owner and owner == other and fence <= tonumber(upTo) then
  hint(owner)
  removed, owner, fence, changed = removed + 1, nil, fence + 1, true
  expected, base, sure = '', '', 'r'
end

-- The turn that has ended.
if owner == me and fence <= ended and fence ~= turn then
  local recovers = sure == 'R'
  if leavesLast ~= '' then
    local mine = tonumber(leaves)
    if not mine and leavesSure == 'r' then mine = 0 end -- nothing is proven
    local more = mine and mine < (tonumber(expected) or 0)
    local raised = base == '' or tonumber(base) >= fence -- since the turn began, by another process
    -- What began before a verdict was bad does not count, nor does what another process has seen more of meanwhile. A holder
    -- that recovers knows less than was known before its turn, and is right.
    if expected == '' and base ~= '' and (tonumber(leavesBase) or 0) < tonumber(base) then
      base = ''
    elseif not more or leavesSure == 'r' and not raised then
      -- That a nonce is missing may have been proven meanwhile.
      local gap = sure == 'g' and mine == tonumber(expected) and (leavesSure == '' or leavesSure == 'a')
      expected, base, sure = leaves, leavesBase, gap and 'g' or leavesSure
    elseif leavesSure == 'r' then
      sure = 'r'
    end
    last = leavesLast
  end
  if recovers then sure = 'r' end
  owner, fence, changed = nil, fence + 1, true -- a late request does not begin it once more
end

-- The turn that it has.
if turn and not broken then
  if owner ~= me and (owner or turn < fence) then
    refused = 1
  elseif owner ~= me or turn > fence or session ~= key then
    fence = math.max(turn, fence)
    if not own(key, me, left) then return not_ours() end
  end
end

-- What it has seen. What comes from outside the lane ends the lane's own chain.
if observed ~= '' and tonumber(observed) > (tonumber(expected) or -1) then
  expected, base, sure, changed = observed, owner and int(fence) or '', (sure == 'r' or sure == 'R') and sure or '', true
end
-- A bad verdict makes the expected nonce void if the turn contributed to it. base says then from which turn on a holder knows it again.
if expected ~= '' and base ~= '' and bad >= tonumber(base) then
  expected, base, sure, changed = '', int(bad + 1), 'r', true
elseif expected ~= '' and expected == missing and (sure == '' or sure == 'a') then
  sure, changed = 'g', true
end

-- Its claim. It came as long ago as its relay says, but for what the call took to get here: so whoever comes after that is behind it.
local former, claim = free(me), nil
if claimed ~= '' and owner ~= me then -- the end of a turn states it anew
  lost = not former and known ~= '0' and 1 or 0
  local since = math.min(now - tonumber(age), former and known == '2' and tonumber(former.since) or now)
  claim = { instance = me, session = claimed, nonce = lowest, since = since, till = window ~= '' and now + tonumber(window) or 0 }
  claims[#claims + 1] = claim
end

-- Who is next: the lowest nonce that is not above the expected one, else the oldest claim that has no window any more.
local function before(a, b)
  if a.low ~= b.low then return a.low end
  if a.low and a.nonce ~= b.nonce then return tonumber(a.nonce) < tonumber(b.nonce) end
  return tonumber(a.since) < tonumber(b.since)
end
local best
for _, c in ipairs((owner or broken or take ~= '1' or lost == 1) and {} or claims) do
  local still = tonumber(c.till) - now
  c.low = tonumber(c.nonce) <= (tonumber(expected) or -1)
  if c.low or still <= 0 then
    if not best or before(c, best) then best = c end
  elseif wait < 0 or still < wait * 1000 then
    wait = math.ceil(still / 1000)
  end
end

-- Write what has changed.
if best then
  fence = math.max(now, fence + 1)
  if expected ~= '' and base == '' then base = int(fence) end
  if not own(best.session, best.instance, hold) then return not_ours() end
  if best.text then redis.call('LREM', KEYS[2], 1, best.text) end
  if best.instance ~= me then hint(best.instance, value) end
elseif owner and changed then
  value = session .. '|' .. owner .. '|' .. state()
  redis.call('SET', KEYS[1], value, 'XX', 'KEEPTTL')
elseif not owner then
  if locked then redis.call('DEL', KEYS[1]) end
  if changed or locked or remembered then redis.call('SET', KEYS[3], state(), 'PX', #claims > 0 and life or memory) end
end
if broken then return not_ours() end
if claim and claim ~= best then
  redis.call('RPUSH', KEYS[2], me .. '|' .. claimed .. '|' .. lowest .. '|' .. int(claim.since) .. '|' .. int(claim.till))
  redis.call('PEXPIRE', KEYS[2], life)
end
if owner == me then news = best and tonumber(hold) or not turn and redis.call('PTTL', KEYS[1]) or -1 end
return { owner and value or '', news, wait, refused, lost, cleared, removed, claimed ~= '' and math.max(now, fence) or 0 }
