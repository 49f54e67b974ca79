-- KEYS[1] wrongnonce:{<sender>}   ARGV[1] length of the window, ms   ARGV[2] places
-- ARGV[3] name of the place
--
-- Takes a place for a transaction that may be refused for its nonce. Places are free again
-- when the window is over. Returns 1, or 0 if there is none left.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1])
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now, ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
