-- Remove what is in the keys of a lane and is no lane's, once nobody can own it. Every value of ours has an end
-- of life, and that of a lock is its hold limit: so one without it is nobody's, and so is one that outlives the limit
-- and names no instance that has a heartbeat.
--
-- ARGV[5]  1 = it has been there for longer than anybody may hold a lock
--
-- Returns how many keys were removed.

local removed = 0
for i, key in ipairs(KEYS) do
  local ours, lives = is_ours(i), false
  local value = i == 1 and ours and redis.call('GET', key)
  if value then
    local member, its, turn = string.match(value, OWNER)
    ours = member and tonumber(its) and tonumber(turn)
    local instance = string.match(value, '^[^|]*|([^|]+)|')
    -- Where the heartbeat is in another slot of a cluster there is no telling.
    local sign = instance and redis.pcall('EXISTS', 'lock:heartbeat:' .. instance)
    lives = sign and sign ~= 0
  end
  if not ours and (redis.call('PTTL', key) == -1 or ARGV[5] == '1' and not lives) then
    removed = removed + redis.call('DEL', key)
  end
end
return removed
