-- The lane of one sender: shared by every script that follows it. It is prepended to
-- them, since a script cannot include another.
--
-- KEYS[1] lock:{address}          string, the owner and the state of the lane; expires at the hold limit
-- KEYS[2] lock:queue:{address}    list, places in order of joining: session|instance|nonce|until
-- KEYS[3] lock:memory:{address}   string, the state of the lane while nobody owns it
-- KEYS[4] lock:waiting:{address}  sorted set, session|instance by nonce: the places that are taken
--
-- An entry of the list that is not in the sorted set has been left and is skipped, so
-- that leaving never searches the list.
--
-- owner: session|instance|nonce|state
-- state: fence|expected|base|sure|lastfence|node|txid     (an empty field is unknown)
--
-- ARGV[1] instance of the caller   ARGV[2] hold limit, ms   ARGV[3] memory of an idle lane, ms
-- ARGV[4] lifetime of an untouched queue, ms                ARGV[5] hold-back window, ms

local caller, hold, window = ARGV[1], ARGV[2], tonumber(ARGV[5])

-- One match takes a value apart; a loop over its fields would cost more than all commands. The
-- patterns are written out, since putting them together would cost as much as a command.
local OWNER = '^([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)'
local STATE = '^([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)'
local ENTRY = '^([^|]*)|([^|]*)|([^|]*)|([^|]*)'

local function int(n) return string.format('%.0f', n) end

local micros
local function now()
  if not micros then
    local t = redis.call('TIME')
    micros = tonumber(t[1]) * 1000000 + tonumber(t[2])
  end
  return micros
end

local state = { fence = 0, expected = '', base = '', sure = '', lastfence = '', node = '', txid = '' }
local owner      -- nil while the lock is free
local locked     -- the lock key exists
local remembered -- the memory key exists
local saved      -- … and has the present state
local wait = -1  -- ms until the first in the queue may go although it is ahead

local function read_state(fence, expected, base, sure, lastfence, node, txid)
  if not fence then return end
  state.fence, state.expected, state.base, state.sure = tonumber(fence) or 0, expected, base, sure
  state.lastfence, state.node, state.txid = lastfence, node, txid
end

local function read_owner(session, instance, nonce, ...)
  owner = { session = session or '', instance = instance or '', nonce = nonce or '' }
  owner.member = owner.session .. '|' .. owner.instance
  read_state(...)
end

local function load()
  local v = redis.call('MGET', KEYS[1], KEYS[3])
  if v[1] then
    locked = true
    read_owner(string.match(v[1], OWNER))
  elseif v[2] then
    remembered = true
    read_state(string.match(v[2], STATE))
  end
end

local function state_text()
  return int(state.fence) .. '|' .. state.expected .. '|' .. state.base .. '|' .. state.sure .. '|'
    .. state.lastfence .. '|' .. state.node .. '|' .. state.txid
end

local function owner_text()
  if not owner then return '' end
  return owner.member .. '|' .. owner.nonce .. '|' .. state_text()
end

local function own(member, nonce, px)
  local session, instance = string.match(member, '^([^|]*)|(.*)$')
  owner = { session = session or '', instance = instance or '', nonce = nonce, member = member }
  redis.call('SET', KEYS[1], owner_text(), locked and 'XX' or 'NX', 'PX', px)
  locked = true
  if remembered then
    redis.call('DEL', KEYS[3])
    remembered = false
  end
end

-- process is the name without the generation.
local function process(instance) return string.match(instance, '^[^.]+') or '' end

-- tell sends a message. Where that is not permitted, those who wait find out by looking.
local function tell(instance, verb)
  redis.pcall('PUBLISH', 'lock:grants:' .. process(instance),
    verb .. '\n' .. KEYS[1] .. '\n' .. hold .. '\n' .. owner_text())
end

-- give makes a place the owner. The number of the turn is the server's time, so that it
-- rises even when the server has lost everything else.
local function give(member, nonce)
  local fence = now()
  if fence <= state.fence then fence = state.fence + 1 end
  state.fence = fence
  if state.expected ~= '' and state.base == '' then state.base = int(fence) end
  own(member, nonce, hold)
  if owner.instance ~= caller then tell(owner.instance, 'grant') end
end

-- put_back makes an entry the first of the list again. A list that was empty has lost its end of life.
local function put_back(entry)
  if redis.call('LPUSH', KEYS[2], entry) == 1 then redis.call('PEXPIRE', KEYS[2], ARGV[4]) end
end

-- next_place takes the place whose turn it is out of the queue. Most often that is the first.
local function next_place()
  for _ = 1, 1000 do -- places that were left are skipped, but a script may not run for long
    local entry = redis.call('LPOP', KEYS[2])
    if not entry then return nil end
    local session, instance, nonce, till = string.match(entry, ENTRY)
    local member = (session or '') .. '|' .. (instance or '')
    local expected = tonumber(state.expected)
    local behind = window == 0 or (expected and tonumber(nonce) <= expected)
    if expected and not behind then
      local found = redis.call('ZRANGEBYSCORE', KEYS[4], state.expected, state.expected, 'LIMIT', 0, 1)[1]
      if found then
        put_back(entry)
        redis.call('ZREM', KEYS[4], found)
        return found, state.expected
      end
    end
    local left = behind and 0 or (tonumber(till) or 0) - math.floor(now() / 1000)
    if left <= 0 then
      if redis.call('ZREM', KEYS[4], member) == 1 then return member, nonce end
    elseif redis.call('ZSCORE', KEYS[4], member) then
      put_back(entry)
      wait = left
      return nil
    end
  end
  wait = 0
  return nil
end

-- set_free leaves the lock free and remembers the state: as long as somebody waits, or long if
-- asked to, else for the memory of an idle lane.
local function set_free(long)
  owner = nil
  if locked then redis.call('DEL', KEYS[1]) end
  if locked or remembered then
    redis.call('SET', KEYS[3], state_text(), 'PX', (long or wait >= 0) and ARGV[4] or ARGV[3])
    remembered, saved = true, true
  end
  locked = false
end

-- pass_on gives a free lock to the next place, or leaves it free.
local function pass_on(long)
  local member, nonce = next_place()
  if member then
    give(member, nonce)
    return
  end
  set_free(long)
end

-- keep stores a changed state without changing whose turn it is, nor for how long it is remembered.
local function keep()
  if owner then
    redis.call('SET', KEYS[1], owner_text(), 'XX', 'KEEPTTL')
  elseif remembered then
    redis.call('SET', KEYS[3], state_text(), 'XX', 'KEEPTTL')
  else
    redis.call('SET', KEYS[3], state_text(), 'PX', wait >= 0 and ARGV[4] or ARGV[3])
  end
end
