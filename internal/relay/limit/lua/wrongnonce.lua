-- KEYS[1] wrongnonce:{<sender>}   ARGV[1] length of the window, ms   ARGV[2] places
-- ARGV[3] name of the place
--
-- Takes a place for a transaction that may be refused for its nonce. Places are free again
-- when the window is over. Returns 1, or 0 if there is none left. While Redis is short of memory a sender's
-- first place is not kept here, since there are as many senders as somebody likes: the process that asked counts
-- it for itself.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1])
local taken = redis.call('ZCARD', KEYS[1])
if taken >= tonumber(ARGV[2]) then return 0 end
if taken == 0 and short() then return short_of_memory end
redis.call('ZADD', KEYS[1], now, ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
