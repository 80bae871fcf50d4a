-- Applies changes to one partition of an index and says where it stands then, if it stands where the writer expects.
-- KEYS: state    ARGV: token expected ('' for no state), token then, what the keys of documents, of vectors and of
--   episodes begin with, generation, feed, covers, phase, then each change: how many arguments it has, and those:
--   'put', id, x, h, episode, order, exact ('1' or ''), field, value, ...
--   'remove', id
--   'vectors', id, rows, vector ('' for none)
-- Returns 0 if the state is another one: then nothing was changed. Else 1, and how many documents and vectors there are, and were removed.
-- The keys of documents and episodes are not declared: they have the hash tag of the state.
local state, document_of, vectors_of, episode_of = KEYS[1], ARGV[3], ARGV[4], ARGV[5]
if (redis.call('HGET', state, 'token') or '') ~= ARGV[1] then return {0} end
local documents, embedded, removed = 0, 0, 0

local function leave(episode, order, id)
  if episode then redis.call('ZREM', episode_of .. episode, order .. '|' .. id) end
end

local function remove(id)
  local document = document_of .. id
  local old = redis.call('HMGET', document, 'e', 'o')
  removed = removed + 1 -- also where the index had not got it yet: readers may have had it from elsewhere
  if not old[2] then return end
  leave(old[1], old[2], id)
  embedded = embedded - redis.call('DEL', vectors_of .. id)
  documents = documents - redis.call('DEL', document)
end

local function put(id, x, h, episode, order, exact, ...)
  local document = document_of .. id
  local old = redis.call('HMGET', document, 'x', 'h', 'e', 'o', 'vector')
  local vector
  if old[1] then
    if exact == '' then order = old[4] end
    if old[1] == x and old[2] == h and old[4] == order then return end
    leave(old[3], old[4], id)
    redis.call('DEL', document)
    if old[2] == h then
      vector = old[5]
    else
      embedded = embedded - redis.call('DEL', vectors_of .. id)
    end
  else
    documents = documents + 1
  end
  local fields = {'x', x, 'h', h, 'o', order}
  if episode ~= '' then
    redis.call('ZADD', episode_of .. episode, 0, order .. '|' .. id)
    table.insert(fields, 'e')
    table.insert(fields, episode)
  end
  if vector then -- one among the arguments comes later, and wins
    table.insert(fields, 'vector')
    table.insert(fields, vector)
  end
  for _, part in ipairs({...}) do table.insert(fields, part) end
  redis.call('HSET', document, unpack(fields))
end

local function vectors(id, rows, vector)
  local document, key = document_of .. id, vectors_of .. id
  if redis.call('EXISTS', document) == 0 then return end
  local before = redis.call('GET', key)
  if before ~= rows then redis.call('SET', key, rows) end
  if not before then embedded = embedded + 1 end
  if vector ~= '' and redis.call('HGET', document, 'vector') ~= vector then
    redis.call('HSET', document, 'vector', vector)
  end
end

local apply = {put = put, remove = remove, vectors = vectors}
local at = 10
while at <= #ARGV do
  local last = at + tonumber(ARGV[at])
  apply[ARGV[at + 1]](unpack(ARGV, at + 2, last))
  at = last + 1
end
redis.call('HSET', state, 'token', ARGV[2], 'generation', ARGV[6], 'feed', ARGV[7], 'covers', ARGV[8], 'phase', ARGV[9])
return {
  1,
  redis.call('HINCRBY', state, 'documents', documents),
  redis.call('HINCRBY', state, 'embedded', embedded),
  redis.call('HINCRBY', state, 'removed', removed),
}
