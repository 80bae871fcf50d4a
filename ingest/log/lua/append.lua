-- Appends a batch to one partition, each dedup id at most once within the window.
-- KEYS: log stream, dedup hash, previous dedup hash, count of bytes appended
-- ARGV: window in ms, ids remembered, then dedup id, payload, trace context ('' for none) and CRC-32 of each entry (at
-- most 2,000 entries)
-- Returns one string an entry: "<ms>-<seq>", or "=<ms>-<seq>" when the id was there already.
--
-- The window is two hashes. When the current one is full (half of the ids) or as old as the window it becomes the
-- previous one, so an id is remembered for at least the window unless more than half of the ids came after it.
local log, current, previous = KEYS[1], KEYS[2], KEYS[3]
local window, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local ids = {''}
for i = 3, #ARGV, 4 do ids[#ids + 1] = ARGV[i] end
local in_current = redis.call('HMGET', current, unpack(ids))
local started = tonumber(in_current[1] or now)
if now - started >= window or redis.call('HLEN', current) > most / 2 then
  redis.call('RENAME', current, previous)
  redis.call('PEXPIRE', previous, window)
  started = now
end
local in_previous = redis.call('HMGET', previous, unpack(ids))

-- The checksum of an entry covers its position, so that is chosen here, as XADD does: greater than all before, and not
-- before now. It is tried first, because asking costs a copy of the stream's first and last entry.
local ms, seq = now, -1
local function add(payload, context, crc)
  seq = seq + 1
  local position = string.format('%.0f-%.0f', ms, seq)
  local entry = {'XADD', log, position, 'e', payload, 'c', redis.sha1hex(crc .. position):sub(1, 8)}
  if context ~= '' then entry[8], entry[9] = 't', context end
  return redis.pcall(unpack(entry))
end

local answers, fresh, new, size = {}, {}, {}, 0
for n = 2, #ids do
  local id = ids[n]
  local first = in_current[n] or in_previous[n] or fresh[id]
  if first then
    answers[n - 1] = '=' .. first
  else
    local payload, context, crc = ARGV[4 * n - 4], ARGV[4 * n - 3], ARGV[4 * n - 2]
    local position = add(payload, context, crc)
    if type(position) == 'table' and string.find(position.err, 'equal or smaller', 1, true) then
      -- something has this millisecond already, or the clock went back
      local info = redis.call('XINFO', 'STREAM', log)
      for i = 1, #info, 2 do
        if info[i] == 'last-generated-id' then ms, seq = string.match(info[i + 1], '(%d+)-(%d+)') end
      end
      ms, seq = tonumber(ms), tonumber(seq)
      position = add(payload, context, crc)
    end
    if type(position) == 'table' then return position end
    answers[n - 1] = position
    size = size + #payload
    fresh[id] = position
    new[#new + 1] = id
    new[#new + 1] = position
  end
end
if #new > 0 then
  redis.call('INCRBY', KEYS[4], size)
  redis.call('HSET', current, '', string.format('%.0f', started), unpack(new))
  if started == now then redis.call('PEXPIRE', current, 2 * window) end
end
return answers
