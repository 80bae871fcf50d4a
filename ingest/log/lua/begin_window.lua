-- Has the window in which restored ids are remembered begin now.
-- KEYS: dedup hash, previous dedup hash    ARGV: window in ms
local current, previous = KEYS[1], KEYS[2]
local window = tonumber(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

redis.call('PEXPIRE', previous, window)
if redis.call('EXISTS', current) == 1 then
  redis.call('HSET', current, '', string.format('%.0f', now))
  redis.call('PEXPIRE', current, 2 * window)
end
