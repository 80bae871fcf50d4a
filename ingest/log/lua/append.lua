-- Appends a batch to one partition, each dedup id at most once within the window.
-- KEYS: log stream, dedup hash, previous dedup hash, count of bytes appended
-- ARGV: window in ms, ids remembered, then of each entry (at most 2,000) dedup id, payload, and its CRC-32 in ten digits
-- with the trace context behind them
-- Returns one string an entry: "<ms>-<seq>", or "=<ms>-<seq>" when the id was there already.
--
-- The window is two hashes. When the current one is full (half of the ids) or as old as the window it becomes the
-- previous one, so an id is remembered for at least the window unless more than half of the ids came after it.
local log, current, previous = KEYS[1], KEYS[2], KEYS[3]
local window, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local ids = {''}
for i = 3, #ARGV, 3 do ids[#ids + 1] = ARGV[i] end
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
local ms, at, seq = now, string.format('%.0f-', now), -1
local pcall, format = redis.pcall, string.format
local function add(payload, crc)
  seq = seq + 1
  if #crc == 10 then
    return pcall('XADD', log, at .. seq, 'e', payload, 'c', format('%08x', (crc + ms + seq) % 4294967296))
  end
  local checksum = format('%08x', (crc:sub(1, 10) + ms + seq) % 4294967296)
  return pcall('XADD', log, at .. seq, 'e', payload, 'c', checksum, 't', crc:sub(11))
end

local answers, fresh, new, size = {}, {}, {}, 0
for n = 2, #ids do
  local id = ids[n]
  local first = in_current[n] or in_previous[n] or fresh[id]
  if first then
    answers[n - 1] = '=' .. first
  else
    local payload, crc = ARGV[3 * n - 2], ARGV[3 * n - 1]
    local position = add(payload, crc)
    if type(position) == 'table' and string.find(position.err, 'equal or smaller', 1, true) then
      -- something has this millisecond already, or the clock went back
      local info = redis.call('XINFO', 'STREAM', log)
      for i = 1, #info, 2 do
        if info[i] == 'last-generated-id' then at, seq = string.match(info[i + 1], '(%d+-)(%d+)') end
      end
      ms, seq = tonumber(at:sub(1, -2)), tonumber(seq)
      position = add(payload, crc)
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
