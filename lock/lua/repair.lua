-- Remove what is in the keys of a lane and is no lane's, once nobody can own it: our values have an end of life, and that of a lock
-- is its hold limit. ARGV[5] is 1 if it has been there for longer. Returns how many keys were removed.

local removed = 0
for i, key in ipairs(KEYS) do
  local kind, ours, sign = redis.call('TYPE', key).ok, true, 0
  if kind == 'string' and i == 1 then
    local its = string.match(redis.call('GET', key), '^[^|]+|([^|]+)|')
    ours = load()
    -- Another version may have written it. Where its heartbeat is in another slot of a cluster there is no telling.
    sign = its and redis.pcall('EXISTS', 'lock:heartbeat:' .. its) or 0
  elseif i == 2 and kind == 'list' then
    load()
    ours = not broken
  else
    ours = kind == 'none' or kind == 'string' and i == 3
  end
  if not ours and (redis.call('PTTL', key) == -1 or ARGV[5] == '1' and sign == 0) then removed = removed + redis.call('DEL', key) end
end
return removed
