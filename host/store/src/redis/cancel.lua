-- cancel: a wish that a run should not go on.
--
-- Keys: see lib/job.lua.
-- Arguments: 1 job  2 run  3 reason
-- Answers: now, revision, and  interrupted | told | ended status | none

local id, reason = ARGV[2], ARGV[3]
local now = clock()
local job = load_with(ARGV[1], id)
on_master()
local run, status = find(job, id)
if not run then
  return answered(job, now, 'none')
end
if status ~= 'running' and status ~= 'pending' then
  return answered(job, now, 'ended', status)
end
-- A run that nobody executes is interrupted at once.
if status == 'pending' or not live(run, now) then
  interrupt(job, id, run, now, reason)
  return answered(job, now, 'interrupted')
end
-- A live one's runner is told with its next heartbeat. The first reason stays.
if not run.cancelled then
  local tail = read_tail(run)
  run.cancelled, tail.reason = true, reason
  keep_tail(run, tail)
  touch(job, run)
end
return answered(job, now, 'told')
