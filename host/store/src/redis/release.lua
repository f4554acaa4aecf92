-- release: a hand-over. The lease ends at once and the attempt is not counted.
--
-- Keys: see lib/job.lua.
-- Arguments: 1 job  2 run  3 token  4 usage  5 the channel on which hosts are woken  6 the job's full name
-- Answers: now, revision, and  done | refused

local name, id, token = ARGV[1], ARGV[2], ARGV[3]

-- S13: one release, one hand-over, however often it is sent and whatever became of the run since. A run marked
-- released by another one's win has not been handed over yet: its holder still may.
local function handed_over(run)
  if run.token ~= token then
    local older = run.attempt > 1 and redis.call('HGET', KEYS[1] .. 'attempts:' .. name .. ':' .. id, token)
    if not older then
      return false
    end
    run = read_run(older)
  end
  return run.attempt > 0 and read_tail(run).attempt_end == 'handed-over'
end

local now = clock()
on_master()
local job = load_with(name, id)
local run, status = find(job, id)
if run and handed_over(run) then
  return answered(job, now, 'done')
end
if status ~= 'running' or run.token ~= token then
  return answered(job, now, 'refused')
end
local tail = read_tail(run)
run.released, run.lease_end, run.hand_overs, run.attempt_ended_at = true, now, run.hand_overs + 1, now
tail.attempt_end, tail.usage = 'handed-over', ARGV[4]
keep_tail(run, tail)
touch(job, run)
local answer = answered(job, now, 'done')
-- Only a hint, so a server that does not let this user publish is no reason to fail after the release is done.
redis.pcall('PUBLISH', ARGV[5], ARGV[6])
return answer
