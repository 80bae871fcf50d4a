-- Appends entries of a backup to one partition at the positions they had, behind all that is there.
-- KEYS: log stream, dedup hash, previous dedup hash, count of bytes appended
-- ARGV: ids remembered, then position, dedup id ('' for none), payload and checksum of each entry
-- Returns the number of entries. The ids are remembered as append.lua does it, without an end: begin_window.lua sets that
-- when the last entry is there. Of entries with one id the first is what a repeat will be told.
local log, current, previous = KEYS[1], KEYS[2], KEYS[3]
local most = tonumber(ARGV[1])

if redis.call('HLEN', current) > most / 2 then redis.call('RENAME', current, previous) end
local count, size = 0, 0
for n = 2, #ARGV, 4 do
  local position, id = ARGV[n], ARGV[n + 1]
  redis.call('XADD', log, position, 'e', ARGV[n + 2], 'c', ARGV[n + 3])
  if id ~= '' and redis.call('HEXISTS', previous, id) == 0 then
    redis.call('HSETNX', current, id, position)
  end
  count = count + 1
  size = size + #ARGV[n + 2]
end
redis.call('INCRBY', KEYS[4], size)
return count
