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
-- ARGV[1] the caller's instance  ARGV[2] hold limit  ARGV[3] memory of an idle lane  ARGV[4] life of an untouched queue, all in ms
-- ARGV[5..9]   its claim: session (empty = nobody waits there), lowest nonce, since, and how long its first window lasts, in µs (empty = no
--              window); 1 = the claim has been stated before, 2 = with the same oldest
-- ARGV[10..12] the turn that it has: fence (empty = none), session, ms left
-- ARGV[13..17] every turn of its own up to this fence has ended; the state that the last one leaves: expected, base, sure, last (empty = as it is)
-- ARGV[18] a nonce seen outside the lane, or empty  ARGV[19] newest turn with a bad verdict, or 0  ARGV[20] a nonce proven missing, or empty
-- ARGV[21] 1 = a free lock may be given; 0 = its owner may still have to state that it has it, and so if the claim was lost
-- ARGV[22..24] another relay whose turns up to this fence end, by force (empty = none); 1 = it is dead, and its claim goes, too
--
-- Returns the owner's value, ms left of it if it is the caller's and news, ms until somebody may go (or -1), 1 if the turn was
-- refused, 1 if the claim was lost, how many values of somebody else were removed, and how many turns and claims of that other relay.

local me = ARGV[1]
local session, owner, fence, expected, base, sure, last -- owner is an instance, nil while the lock is free
local locked, remembered, changed -- what is in the keys, and whether the state differs from it
local claims, wait, given, broken, cleared = {}, -1, false, false, 0

local function int(n) return string.format('%.0f', n) end

local micros
local function now()
  if not micros then
    local t = redis.call('TIME')
    micros = t[1] * 1000000 + t[2]
  end
  return micros
end

local function not_ours() return { err = "WRONGTYPE somebody else's value is in the keys of a lane" } end

-- clear removes somebody else's value that would stay for ever. What is ours has an end of life, and so has what another version wrote.
local function clear(key)
  local left = redis.call('PTTL', key) == -1
  if left then cleared = cleared + redis.call('DEL', key) end
  return left
end

-- load returns false where somebody else has written the lock; where that has written the queue, a turn can still end, and nobody is
-- given the next.
local function load()
  local v = redis.call('MGET', KEYS[1], KEYS[3])
  locked, remembered = v[1], v[2]
  if locked then
    session, owner, fence, expected, base, sure, last = string.match(locked, '^([^|]+)|([^|]+)|(%d+)|(%d*)|(%d*)|(%w?)|(.*)$')
    if not owner then
      if not clear(KEYS[1]) then return false end
      locked = nil
    end
  end
  if remembered and not locked then
    fence, expected, base, sure, last = string.match(remembered, '^(%d+)|(%d*)|(%d*)|(%w?)|(.*)$')
  end
  if not fence then fence, expected, base, sure, last = '0', '', '', '', '||' end
  local list = redis.pcall('LRANGE', KEYS[2], 0, -1)
  broken = list.err
  for i, text in ipairs(list) do
    local c = { text = text, stored = true }
    c.instance, c.session, c.nonce, c.since, c.till = string.match(text, '^([^|]+)|([^|]+)|(%d+)|(%d+)|(%d+)$')
    if not c.till then broken = true break end
    claims[i] = c
  end
  if broken and clear(KEYS[2]) then claims, broken = {}, false end
  return true
end

local function state() return fence .. '|' .. expected .. '|' .. base .. '|' .. sure .. '|' .. last end

-- hint asks an instance to look at the lane. Where that is not permitted, those who wait find out by looking.
local function hint(instance) redis.pcall('PUBLISH', 'lock:grants:' .. instance, KEYS[1]) end

local function own(its, instance, px)
  session, owner = its, instance
  local value, how = its .. '|' .. instance .. '|' .. state(), locked and 'XX' or 'NX'
  local set = redis.call('SET', KEYS[1], value, how, 'PX', px)
  if not set and clear(KEYS[1]) then set = redis.call('SET', KEYS[1], value, how, 'PX', px) end -- another kind of value
  if set and remembered then redis.call('DEL', KEYS[3]) end
  locked, remembered, changed = set, false, false
  return set
end

local function before(a, b)
  if a.low ~= b.low then return a.low end
  if a.low and a.nonce ~= b.nonce then return tonumber(a.nonce) < tonumber(b.nonce) end
  return tonumber(a.since) < tonumber(b.since)
end

-- finish gives a free lock to a claim, if take, and writes what has changed: last, so that nothing is done by halves.
-- The lowest nonce that is not above the expected one goes first, else the oldest claim that has no window any more.
local function finish(take)
  local best
  if owner or not take or broken then claims.none = true end
  for _, c in ipairs(claims.none and {} or claims) do
    local left = c.till == '0' and 0 or tonumber(c.till) - now()
    c.low = tonumber(c.nonce) <= (tonumber(expected) or -1)
    if c.low or left <= 0 then
      if not best or before(c, best) then best = c end
    elseif wait < 0 or left < wait * 1000 then
      wait = math.ceil(left / 1000)
    end
  end
  if best then
    fence = int(math.max(now(), tonumber(fence) + 1))
    if expected ~= '' and base == '' then base = fence end
    if not own(best.session, best.instance, ARGV[2]) then return not_ours() end
    given = true
    if best.stored then redis.call('LREM', KEYS[2], 1, best.text) end
    if best.instance ~= me then hint(best.instance) end
  elseif owner and changed then
    redis.call('SET', KEYS[1], session .. '|' .. owner .. '|' .. state(), 'XX', 'KEEPTTL')
  elseif not owner then
    if locked then redis.call('DEL', KEYS[1]) end
    if changed or locked or remembered then redis.call('SET', KEYS[3], state(), 'PX', #claims > 0 and ARGV[4] or ARGV[3]) end
  end
  if broken then return not_ours() end
  for _, c in ipairs(claims) do
    if not c.stored and c ~= best then
      redis.call('RPUSH', KEYS[2], c.text)
      redis.call('PEXPIRE', KEYS[2], ARGV[4])
    end
  end
end

if not load() then return not_ours() end
local turn, refused, lost, removed = tonumber(ARGV[10]), 0, 0, 0

-- What that other relay has sent is not known, so the expected nonce is forgotten, and the lane recovers. A later turn of it stays.
for i, c in ipairs(ARGV[24] == '1' and claims or {}) do
  if c.instance == ARGV[22] then
    redis.call('LREM', KEYS[2], 1, table.remove(claims, i).text)
    removed, sure, changed = 1, owner and 'R' or 'r', true
    break
  end
end
if owner and owner == ARGV[22] and tonumber(fence) <= tonumber(ARGV[23]) then
  hint(owner)
  removed, owner, fence, changed = removed + 1, nil, int(tonumber(fence) + 1), true
  expected, base, sure = '', '', 'r'
end

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
return { owner and session .. '|' .. owner .. '|' .. state() or '', owner == me and left or -1, wait, refused, math.max(lost, 0), cleared, removed }
