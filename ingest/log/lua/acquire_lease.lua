-- Takes a free (or its own) lease and hands out a fencing token larger than every one before.
-- KEYS: lease, fence    ARGV: worker id, ttl in ms
-- Returns the fencing token, or 0 when another worker holds the lease.
-- The token is the time in ms, or one more than the last: a failover may lose the newest token, and the next one must
-- not be the same.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local time = redis.call('TIME')
local fence = math.max(time[1] * 1000 + math.floor(time[2] / 1000), tonumber(redis.call('GET', KEYS[2]) or 0) + 1)
redis.call('SET', KEYS[2], string.format('%.0f', fence))
return fence
