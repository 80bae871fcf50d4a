-- Takes a free (or its own) lease and hands out a fencing token larger than every one before.
-- KEYS: lease, fence    ARGV: worker id, ttl in ms
-- Returns the fencing token, or 0 when another worker holds the lease.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('INCR', KEYS[2])
