-- Gives each name a number on first sight, from 1 up and in the order of the names; one that has a number keeps it.
-- KEYS: numbers by name, names by number    ARGV: names (at most 2,000)
-- Returns the number of each name.
local numbers = redis.call('HMGET', KEYS[1], unpack(ARGV))
local last = redis.call('HLEN', KEYS[1])  -- nothing is ever taken out, so the count is the newest number
local fresh, by_name, by_number = {}, {}, {}
for n, name in ipairs(ARGV) do
  if not numbers[n] then
    if not fresh[name] then
      last = last + 1
      fresh[name] = string.format('%.0f', last)
      by_name[#by_name + 1], by_number[#by_number + 1] = name, fresh[name]
      by_name[#by_name + 1], by_number[#by_number + 1] = fresh[name], name
    end
    numbers[n] = fresh[name]
  end
end
if #by_name > 0 then
  redis.call('HSET', KEYS[1], unpack(by_name))
  redis.call('HSET', KEYS[2], unpack(by_number))
end
return numbers
