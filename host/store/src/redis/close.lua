-- close: gives up an orphan, a run that nobody executes of a job that no host has offered for long.
--
-- Keys: see lib/job.lua.
-- Arguments: 1 job  2 run  3 for how long no host may have offered the job, ms  4 reason
-- Answers: now, revision, and  closed | live | offered | ended status | none

local id = ARGV[2]
local now = clock()
local job = load(ARGV[1])
on_master()
local run, status = find(job, id)
if not run then
  return answered(job, now, 'none')
end
if status ~= 'running' and status ~= 'pending' then
  return answered(job, now, 'ended', status)
end
if status == 'running' and live(run, now) then
  return answered(job, now, 'live')
end
-- A job that no host ever offered counts from when the run was asked for.
local offered = job.offer and job.offer[3] or run.due
if now <= offered + tonumber(ARGV[3]) then
  return answered(job, now, 'offered')
end
interrupt(job, id, run, now, ARGV[4])
return answered(job, now, 'closed')
