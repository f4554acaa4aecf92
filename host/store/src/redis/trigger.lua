-- trigger: stores an on-demand run before it answers.
--
-- Keys: see lib/job.lua.
-- Arguments: 1 job  2 run  3 most that may wait  4 whether there is a payload: 1 or 0  5 the payload
--   6 the channel on which hosts are woken  7 the job's full name
-- Answers: now, revision, and  stored | exists status | ended | full

local name, id = ARGV[1], ARGV[2]
local now = clock()
local job = load_with(name, id)

-- S13: a repeat is answered with what became of the first, also when too many are waiting.
local run, status = find(job, id)
if run then
  return answered(job, now, 'exists', status)
end
if redis.call('ZSCORE', KEYS[1] .. 'gone:' .. name, id) then
  return answered(job, now, 'ended')
end
if redis.call('HLEN', KEYS[1] .. 'pending:' .. name) >= tonumber(ARGV[3]) then
  return answered(job, now, 'full')
end
redis.call('HSET', KEYS[1] .. 'pending:' .. name, id, now)
if ARGV[4] == '1' then
  redis.call('HSET', KEYS[1] .. 'payload:' .. name, id, ARGV[5])
end
job.unfinished = job.unfinished + 1
job.changed = true
local answer = answered(job, now, 'stored')
-- Only a hint, so a server that does not let this user publish is no reason to fail after the run is stored.
redis.pcall('PUBLISH', ARGV[6], ARGV[7])
return answer
