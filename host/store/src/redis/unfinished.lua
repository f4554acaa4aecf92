-- unfinished: pending, running and expired runs of one tenant, from the index of jobs that have some.
--
-- Keys: see lib/job.lua.
-- Arguments: 1 where to begin: - for the first job, [<job> with this one, (<job> behind it  2 runs after which it is
--   enough; a job is answered whole
-- Answers: now; for each job: job, newest started, newest skipped, and of each run: run, where it stands as
--   lib/view.lua says; the last job looked at if there may be more

-- Jobs looked at in one call, so that it does not hold up the server.
local JOBS = 200
local enough = tonumber(ARGV[2])
local now = clock()
local names = redis.call('ZRANGEBYLEX', KEYS[1] .. 'open', ARGV[1], '+', 'LIMIT', 0, JOBS)
local found, runs = {}, 0
for i, name in ipairs(names) do
  local job = load(name)
  local open = {}
  for id, run in pairs(job.runs) do
    open[#open + 1] = { id, standing(run, 'running') }
  end
  local pending = pending_of(name)
  for j = 1, #pending, 2 do
    open[#open + 1] = { pending[j], standing(new_run(tonumber(pending[j + 1])), 'pending') }
  end
  found[#found + 1] = { name, known(job.newest_started), known(job.newest_skipped), open }
  runs = runs + #open
  if runs >= enough or i == JOBS then
    return { now, found, name }
  end
end
return { now, found, false }
