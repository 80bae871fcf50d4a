-- Whether an entry of a change feed is still there. A client that asked for the entry would be sent all of it.
-- KEYS: change feed, note of where it is trimmed    ARGV: entry id
-- Returns the note ('' if there is none), and 1 if the entry is there, else 0.
local entries = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])
return {redis.call('GET', KEYS[2]) or '', #entries}
