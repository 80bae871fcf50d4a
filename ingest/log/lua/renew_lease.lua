-- Prolongs (ttl > 0) or gives up (ttl = 0) a lease that this worker still holds.
-- KEYS: lease    ARGV: worker id, ttl in ms
-- Returns 1 when the worker held it, else 0.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then redis.call('DEL', KEYS[1]) else redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1
