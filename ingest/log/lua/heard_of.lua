-- KEYS: registry    ARGV: ttl in ms
-- Returns the members that were heard of within the ttl, by the server's clock.
local time = redis.call('TIME')
local now, ttl = time[1] * 1000 + math.floor(time[2] / 1000), tonumber(ARGV[1])
return redis.call('ZRANGE', KEYS[1], string.format('%.0f', now - ttl), string.format('%.0f', now + ttl), 'BYSCORE')
