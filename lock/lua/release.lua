-- End a turn and give it to the next place; or give up a place. A session that is neither
-- the owner nor in the queue is a silent no-op, so repeating it is harmless.
--
-- ARGV[5]  session
-- ARGV[6]  1 = the fields below are what the holder knows; 0 = the state stays
-- ARGV[7]  1 = a lock that was free before may be given to the next; 0 = its owner may still have to adopt it
-- ARGV[8..11]  expected, base, sure, lastfence|node|txid
--
-- Returns 1 if the session was the owner, then the owner, and ms until the first in the queue may go (or -1).

load()
local member = ARGV[5] .. '|' .. caller
local was = owner == member

if was then
  local found = sure == 'R' -- since its turn began
  if ARGV[6] == '1' then
    local mine = tonumber(ARGV[8])
    if not mine and ARGV[10] == 'r' then mine = 0 end -- nothing is proven
    local more = mine and mine < (tonumber(expected) or 0)
    local raised = base == '' or tonumber(base) >= tonumber(fence) -- since the turn began, by another process
    -- What began before a verdict was bad does not count, nor does what another process has
    -- seen more of meanwhile. A holder that recovers knows less than was known before its turn, and is right.
    if expected == '' and base ~= '' and (tonumber(ARGV[9]) or 0) < (tonumber(base) or 0) then
      expected, base = '', ''
    elseif not more or ARGV[10] == 'r' and not raised then
      -- That a nonce is missing may have been proven meanwhile.
      local gap = sure == 'g' and mine == tonumber(expected) and (ARGV[10] == '' or ARGV[10] == 'a')
      expected, base, sure = ARGV[8], ARGV[9], gap and 'g' or ARGV[10]
    elseif ARGV[10] == 'r' then
      sure = 'r'
    end
    last = ARGV[11]
  end
  if found then sure = 'r' end
  owner = nil
  pass_on()
else
  if redis.call('ZREM', KEYS[4], member) == 1 and redis.call('EXISTS', KEYS[4]) == 0 then
    redis.call('DEL', KEYS[2]) -- it holds nothing but places that were left
  end
  if not owner and ARGV[7] == '1' then pass_on() end
end

if broken then return not_ours() end -- but the turn has ended
return { was and 1 or 0, owner and text or '', wait }
