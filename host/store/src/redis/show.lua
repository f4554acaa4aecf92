-- show: all that is kept of a run.
--
-- Keys: see lib/job.lua.
-- Arguments: 1 job  2 run
-- Answers: now, and the run as lib/view.lua shows it (nothing: no such run)

local id = ARGV[2]
local now = clock()
local job = load_with(ARGV[1], id)
local run, status, ending = find(job, id)
return { now, run and view(job, id, run, status, ending) }
