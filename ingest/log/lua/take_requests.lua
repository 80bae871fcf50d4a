-- Take up to `want` requests out of a key's bucket, which refills evenly and holds a minute's worth at most.
-- What is owed is taken first, also where the bucket does not have it: it holds a debt then, of an hour's worth at most.
-- KEYS: bucket (hash: left, at_ms). ARGV: per_minute, want, ttl_ms, owed. Returns {taken, ms until there is one more}.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local most, rate = tonumber(ARGV[1]), ARGV[1] / 60000
local state = redis.call('HMGET', KEYS[1], 'left', 'at_ms')
local left = most
if state[1] then
  left = math.min(most, tonumber(state[1]) + math.max(0, now - tonumber(state[2])) * rate)
end
left = math.max(left - ARGV[4], -60 * most)
local taken = math.max(0, math.min(tonumber(ARGV[2]), math.floor(left)))
left = left - taken
redis.call('HSET', KEYS[1], 'left', string.format('%.6f', left), 'at_ms', now)
local wait = 0
if left < 1 then wait = math.ceil((1 - left) / rate) end
redis.call('PEXPIRE', KEYS[1], ARGV[3] + wait)
return {taken, wait}
