-- Takes the least urgent documents off an embedding queue that holds too many, and notes from where to where in the log
-- they are. A score is urgency * 1e13 + 9e12 - ms; only whole ones of the urgencies 1 to 4 tell when a document was
-- recorded: for the others the whole log is looked through.
-- KEYS: embedding queue, note (hash: count; low and high, in ms; before, the position ahead of which to go on)
-- ARGV: how many may stay
-- Returns how many were taken off.
local cut = redis.call('ZRANGE', KEYS[1], ARGV[1], -1, 'WITHSCORES')
if #cut == 0 then return 0 end
local note = redis.call('HMGET', KEYS[2], 'low', 'high')
local low, high = tonumber(note[1] or 9e12), tonumber(note[2] or 0)
for n = 2, #cut, 2 do
  local score = tonumber(cut[n])
  local from, to = 0, 9e12
  if score >= 1e13 and score < 5e13 and score % 1 == 0 then
    from = 9e12 - score % 1e13
    to = from
  end
  low, high = math.min(low, from), math.max(high, to)
end
redis.call('ZREMRANGEBYRANK', KEYS[1], ARGV[1], -1)
redis.call('HSET', KEYS[2], 'low', string.format('%.0f', low), 'high', string.format('%.0f', high))
redis.call('HDEL', KEYS[2], 'before')
redis.call('HINCRBY', KEYS[2], 'count', #cut / 2)
return #cut / 2
