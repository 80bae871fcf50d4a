-- Counts tokens against a limit. KEYS: counter    ARGV: tokens (negative: given back), limit (-1: none), ttl in s
-- Returns 1 when they are counted; 0, and nothing is counted, when they would go over the limit.
local used = redis.call('INCRBY', KEYS[1], ARGV[1])
local limit = tonumber(ARGV[2])
local counted = 1
if limit >= 0 and used > limit then
  redis.call('DECRBY', KEYS[1], ARGV[1])
  counted = 0
end
redis.call('EXPIRE', KEYS[1], ARGV[3])
return counted
