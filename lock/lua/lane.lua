-- The lane of one sender: prepended to every script that follows it, since a script cannot include another.
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
