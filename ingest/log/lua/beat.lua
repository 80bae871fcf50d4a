-- Says that somebody is up, by the server's clock: those of the hosts differ.
-- KEYS: registry    ARGV: member, ttl in ms, what earlier words of the same one begin with ('' for none)
-- Drops earlier words, and members not heard of for the ttl, or heard of in the future (a clock was put back).
-- Returns the members that are left, in the order of their names.
local time = redis.call('TIME')
local now, ttl = time[1] * 1000 + math.floor(time[2] / 1000), tonumber(ARGV[2])
if ARGV[3] ~= '' then
  for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
    if member ~= ARGV[1] and string.sub(member, 1, #ARGV[3]) == ARGV[3] then redis.call('ZREM', KEYS[1], member) end
  end
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', now - ttl))
redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('(%.0f', now + ttl), '+inf')
local members = redis.call('ZRANGE', KEYS[1], 0, -1)
table.sort(members)
return members
