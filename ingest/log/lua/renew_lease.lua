-- Prolongs (ttl > 0) or gives up (ttl = 0) a lease that this worker still holds. With a fence, also one that expired and
-- that nobody has taken since: a machine too busy to renew in time does not lose what nobody else wants.
-- KEYS: lease, fence (optional)    ARGV: worker id, ttl in ms, the fencing token that came with the lease (with a fence)
-- Returns 1 when the worker held it, else 0.
local holder = redis.call('GET', KEYS[1])
if not holder and KEYS[2] and redis.call('GET', KEYS[2]) == ARGV[3] then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
if holder ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then redis.call('DEL', KEYS[1]) else redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1
