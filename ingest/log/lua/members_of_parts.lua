-- Reads many parts of one sorted set whose members all have the same score: those that begin with a text.
-- KEYS: sorted set    ARGV: beginnings (at most 2,000)
-- Returns the members of each part, in order; one answer where so many range commands would cost a parse each.
local parts = {}
for n = 1, #ARGV do
  parts[n] = redis.call('ZRANGE', KEYS[1], '[' .. ARGV[n], '(' .. ARGV[n] .. '\255', 'BYLEX')
end
return parts
