-- Reads documents of one partition, and those next to them in their episodes.
-- KEYS[1]: a key of the partition. ARGV: what the keys of documents, of vectors and of episodes begin with; how many
-- places on either side; ids.
-- Returns a row for each that is there: id, entry, hashes of terms, vector, the model's vectors, place in its episode
-- (-1 outside any).
local documents, vectors, episodes, reach = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local rows, known, beside = {}, {}, {}

local function read(id, place)
  local found = redis.call('HMGET', documents .. id, 'x', 'h', 'vector', 'e', 'o')
  if not found[1] then
    return
  end
  local episode = found[4]
  if episode and not place then
    episode = episodes .. episode
    place = redis.call('ZRANK', episode, found[5] .. '|' .. id)
    if place and reach > 0 then
      local first = math.max(0, place - reach)
      for n, member in ipairs(redis.call('ZRANGE', episode, first, place + reach)) do
        beside[#beside + 1] = {string.sub(member, string.find(member, '|', 1, true) + 1), first + n - 1}
      end
    end
  end
  known[id] = true
  rows[#rows + 1] = {id, found[1], found[2], found[3], redis.call('GET', vectors .. id), place or -1}
end

for n = 5, #ARGV do
  if not known[ARGV[n]] then
    read(ARGV[n], nil)
  end
end
for _, one in ipairs(beside) do
  if not known[one[1]] then
    read(one[1], one[2])
  end
end
return rows
