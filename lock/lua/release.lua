-- End a turn and give it to the next place; or give up a place. A session that is neither
-- the owner nor in the queue is a silent no-op, so repeating it is harmless.
--
-- ARGV[6]  session
-- ARGV[7]  1 = the fields below are what the holder knows; 0 = the state stays
-- ARGV[14] 1 = a lock that was free before may be given to the next; 0 = its owner may still have to adopt it
-- ARGV[8..13]  expected, base, sure, lastfence, node, txid
--
-- Returns 1 if the session was the owner, then the owner, and ms until the first in the queue may go (or -1).

load()
local member = ARGV[6] .. '|' .. caller
local was = owner ~= nil and owner.member == member

if was then
  if ARGV[7] == '1' then
    local shared, mine = tonumber(state.expected), tonumber(ARGV[8])
    local valid = state.expected == '' and tonumber(state.base)
    if valid and (tonumber(ARGV[9]) or 0) < valid then
      mine = nil
      ARGV[8], ARGV[9], ARGV[10] = '', '', ''
    end
    -- Another process may have seen a higher nonce meanwhile.
    if not (shared and mine and shared > mine) then
      state.expected, state.base, state.sure = ARGV[8], ARGV[9], ARGV[10]
    end
    state.lastfence, state.node, state.txid = ARGV[11], ARGV[12], ARGV[13]
  end
  owner = nil
  pass_on()
else
  if redis.call('ZREM', KEYS[4], member) == 1 and redis.call('EXISTS', KEYS[4]) == 0 then
    redis.call('DEL', KEYS[2]) -- it holds nothing but places that were left
  end
  if not owner and ARGV[14] == '1' then pass_on() end
end

return { was and 1 or 0, owner_text(), wait }
