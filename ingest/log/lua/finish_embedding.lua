#!lua
-- Publishes vectors and takes their documents off the queue, unless one was queued again meanwhile (its text changed).
-- KEYS: embedding queue, change feed    ARGV: feed items (may be empty), then document id and score of each
-- Returns how many documents left the queue.
local finished = 0
for n = 2, #ARGV, 2 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[n])
  if score and tonumber(score) == tonumber(ARGV[n + 1]) then
    finished = finished + redis.call('ZREM', KEYS[1], ARGV[n])
  end
end
if ARGV[1] ~= '' then redis.call('XADD', KEYS[2], '*', 'p', '', 'c', ARGV[1]) end
return finished
