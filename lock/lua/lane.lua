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
-- sure: 1 = expected is the lane's own work; r = the lane recovers, R = since the present turn began; empty = none of these, nor:
--       a = one that was ahead of expected is judged by the network; g = the network has refused it, so expected is missing
--
-- ARGV[1] instance of the caller   ARGV[2] hold limit, ms   ARGV[3] memory of an idle lane, ms
-- ARGV[4] lifetime of an untouched queue, ms
--
-- Every function, match and string made here costs about as much as a command, so there
-- are few, and what is only passed on is not taken apart.

local caller = ARGV[1]

local OWNER = '^([^|]*|[^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|(.*)$'
local STATE = '^([^|]*)|([^|]*)|([^|]*)|([^|]*)|(.*)$'
local ENTRY = '^([^|]*|[^|]*)|([^|]*)|([^|]*)'

-- A member, session|instance, is a place; the owner is the member whose turn it is, nil while the lock is free.
local owner, nonce
local fence, expected, base, sure, last -- the state; last is lastfence|node|txid
local text       -- the value of the lock key
local locked     -- the lock key exists
local remembered -- the memory key exists
local saved      -- … and has the present state
local wait = -1  -- ms until the first in the queue may go although it is ahead
local broken     -- the queue cannot be read: somebody else's value is in its keys

local function load()
  local v = redis.call('MGET', KEYS[1], KEYS[3])
  text, locked, remembered = v[1], v[1], not v[1] and v[2]
  if locked then
    owner, nonce, fence, expected, base, sure, last = string.match(text, OWNER)
    if not owner then owner, text = '|', '|' end -- nobody that is known, but not free
  elseif remembered then
    fence, expected, base, sure, last = string.match(v[2], STATE)
  end
  if not tonumber(fence) then
    nonce, fence, expected, base, sure, last = '', '0', '', '', '', '||'
  end
end

local function int(n) return string.format('%.0f', n) end

local micros
local function now()
  if not micros then
    local t = redis.call('TIME')
    micros = t[1] * 1000000 + t[2]
  end
  return micros
end

local function state_text()
  return fence .. '|' .. expected .. '|' .. base .. '|' .. sure .. '|' .. last
end

-- KINDS are the kinds of the four keys. A command on a key of another kind ends its script halfway, so a script
-- comes upon such a key before it changes whose turn it is.
local KINDS = { 'string', 'list', 'string', 'zset' }

local function is_ours(i)
  local kind = redis.call('TYPE', KEYS[i]).ok
  return kind == 'none' or kind == KINDS[i]
end

-- not_ours is the reply of a script that cannot use the queue.
local function not_ours()
  return { err = "WRONGTYPE somebody else's value is in the queue of a lane" }
end

-- is_of tells whether a member is a place of an instance.
local function is_of(member, instance) return string.sub(member, -#instance - 1) == '|' .. instance end

-- process is the name of a member's instance without the generation.
local function process(member) return string.match(member, '|([^.]*)') end

local function own(member, its, px)
  owner, nonce = member, its
  text = member .. '|' .. its .. '|' .. state_text()
  redis.call('SET', KEYS[1], text, locked and 'XX' or 'NX', 'PX', px)
  locked = true
  if remembered then
    redis.call('DEL', KEYS[3])
    remembered = false
  end
end

-- tell sends the owner a message. Where that is not permitted, those who wait find out by looking.
local function tell(verb)
  redis.pcall('PUBLISH', 'lock:grants:' .. process(owner), verb .. '\n' .. KEYS[1] .. '\n' .. ARGV[2] .. '\n' .. text)
end

-- give makes a place the owner. The number of the turn is the server's time, so that it
-- rises even when the server has lost everything else.
local function give(member, its)
  fence = int(math.max(now(), tonumber(fence) + 1))
  if expected ~= '' and base == '' then base = fence end
  own(member, its, ARGV[2])
  if not is_of(member, caller) then tell('grant') end
end

-- ready tells whether a place with that nonce has nothing to wait for but its turn. till is when its
-- window ends, in ms by the clock of this server; 0 = it has none.
local function ready(its, till)
  local known = tonumber(expected)
  return till == '0' or known and tonumber(its) <= known
end

-- ask runs a command on the queue. If the queue cannot be read, that is noted, and the answer is false.
local function ask(...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  broken = true
  return false
end

-- next_place takes the place whose turn it is out of the queue. Most often that is the first.
local function next_place()
  for _ = 1, 1000 do -- places that were left are skipped, but a script may not run for long
    local entry = ask('LPOP', KEYS[2])
    if not entry then return nil end
    local member, its, till = string.match(entry, ENTRY)
    local found, left -- left is how long it may have to wait; nil: it is nobody's
    if member and ready(its, till) then
      left = 0
    elseif member then
      found = tonumber(expected) and ask('ZRANGEBYSCORE', KEYS[4], '-inf', expected, 'WITHSCORES', 'LIMIT', 0, 1)
      left = (tonumber(till) or 0) - math.floor(now() / 1000)
    end
    found = found and found[1] and found
    if found or left and left > 0 and ask('ZSCORE', KEYS[4], member) then
      -- It stays the first. A list that was empty has lost its end of life.
      if redis.call('LPUSH', KEYS[2], entry) == 1 then redis.call('PEXPIRE', KEYS[2], ARGV[4]) end
      if found then
        redis.call('ZREM', KEYS[4], found[1])
        return found[1], int(tonumber(found[2]))
      end
      wait = left
      return nil
    end
    if left and left <= 0 and ask('ZREM', KEYS[4], member) == 1 then return member, its end
    if broken then return nil end
  end
  wait = 0
  return nil
end

-- set_free leaves the lock free and remembers the state: as long as somebody waits, or long if
-- asked to, else for the memory of an idle lane.
local function set_free(long)
  owner, text = nil, nil
  if locked then redis.call('DEL', KEYS[1]) end
  if locked or remembered then
    redis.call('SET', KEYS[3], state_text(), 'PX', (long or wait >= 0) and ARGV[4] or ARGV[3])
    remembered, saved = true, true
  end
  locked = false
end

-- pass_on gives a free lock to the next place, or leaves it free.
local function pass_on(long)
  local member, its = next_place()
  if member then
    give(member, its)
    return
  end
  set_free(long)
end

-- keep stores a changed state without changing whose turn it is, nor for how long it is remembered.
local function keep()
  if owner then
    text = owner .. '|' .. nonce .. '|' .. state_text()
    redis.call('SET', KEYS[1], text, 'XX', 'KEEPTTL')
  elseif remembered then
    redis.call('SET', KEYS[3], state_text(), 'XX', 'KEEPTTL')
  else
    redis.call('SET', KEYS[3], state_text(), 'PX', wait >= 0 and ARGV[4] or ARGV[3])
  end
end
