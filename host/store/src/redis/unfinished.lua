-- unfinished: pending, running and expired runs of one tenant, from the index of jobs that have some.
--
-- Keys: see lib/job.lua.
-- Arguments: 1 where to begin: - for the first job, [<job> with this one, (<job> behind it  2 runs after which it is
--   enough; a job is answered whole
-- Answers: now; for each job: job, and 1, newest started, newest skipped, and of each run: run, where it stands as
--   lib/view.lua says; or, where a record cannot be read: nothing, the reason; the last job looked at if there may be
--   more

-- Jobs looked at in one call, so that it does not hold up the server.
local JOBS = 200

local function look(name)
  local job = load(name)
  local open = {}
  for id, run in pairs(job.runs) do
    open[#open + 1] = { id, standing(run, 'running') }
  end
  local pending = pending_of(name)
  for i = 1, #pending, 2 do
    open[#open + 1] = { pending[i], standing(new_run(tonumber(pending[i + 1])), 'pending') }
  end
  return { 1, known(job.newest_started), known(job.newest_skipped), open }
end

local enough = tonumber(ARGV[2])
local now = clock()
local names = redis.call('ZRANGEBYLEX', KEYS[1] .. 'open', ARGV[1], '+', 'LIMIT', 0, JOBS)
local found, runs = {}, 0
for i, name in ipairs(names) do
  local its = apart(look, name)
  found[#found + 1] = { name, its }
  runs = runs + (its[4] and #its[4] or 0)
  if runs >= enough or i == JOBS then
    return { now, found, name }
  end
end
return { now, found, false }
