#!lua flags=allow-oom
-- Carries out a transaction although the server is at its maxmemory, which MULTI cannot.
-- KEYS: keys that must hold what is expected; without any, one key of the transaction
-- ARGV: how many of KEYS are looked at, for each "=" and the expected value or "!" for none; then each command: how many
-- words, and its words
-- Returns {} when a key does not hold what is expected, and then nothing is done; else a 1 and the answers.
local at, looked_at = 2, tonumber(ARGV[1])
for n = 1, looked_at do
  local value = redis.call('GET', KEYS[n])
  if (value and '=' .. value or '!') ~= ARGV[at] then return {} end
  at = at + 1
end
local answers = {1}
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  answers[#answers + 1] = redis.pcall(unpack(ARGV, at + 1, at + words))
  at = at + words + 1
end
return answers
