-- release: a hand-over. The lease ends at once and the attempt is not counted.
--
-- Keys: see lib/job.lua.
-- Arguments: 1 job  2 run  3 token  4 usage  5 the channel on which hosts are woken  6 the job's full name
-- Answers: now, revision, and  done | refused

local name, id, token = ARGV[1], ARGV[2], ARGV[3]
local now = clock()
local job = load_with(name, id)
on_master()

-- S13: one release, one hand-over, however often it is sent and whatever became of the run since. A run marked
-- released by another one's win has not been handed over yet: its holder still may.
local function handed_over(run)
  if run[TOKEN] == token then
    return run[ATTEMPT_END] == 'handed-over'
  end
  local older = run[ATTEMPT] > 1 and redis.call('HGET', key_of('attempts', name) .. ':' .. id, token)
  return older and unpacked(older)[ATTEMPT_END - ATTEMPT + 1] == 'handed-over'
end

local run, status = find(job, id)
if run and handed_over(run) then
  return answered(job, now, 'done')
end
if status ~= 'running' or run[TOKEN] ~= token then
  return answered(job, now, 'refused')
end
run[RELEASED], run[LEASE_END], run[HAND_OVERS] = true, now, run[HAND_OVERS] + 1
run[ATTEMPT_ENDED_AT], run[ATTEMPT_END], run[USAGE] = now, 'handed-over', ARGV[4]
touch(job, id)
local answer = answered(job, now, 'done')
-- Only a hint, so a server that does not let this user publish is no reason to fail after the release is done.
redis.pcall('PUBLISH', ARGV[5], ARGV[6])
return answer
