#!lua
-- Sets a key to another value, if it has the one that is expected.
-- KEYS: key    ARGV: value expected ('' for no key), value then
-- Returns 1 if it had, else 0.
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
