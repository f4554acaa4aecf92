-- check: where runs of one tenant stand. It decides nothing.
--
-- Keys: see lib/job.lua.
-- Arguments, two a run: job, run.
-- Answers: now, and for each run: newest started, newest skipped, and where it stands as lib/view.lua says (nothing: no
-- such run)

local now = clock()
local found = {}
for i = 1, #ARGV, 2 do
  local id = ARGV[i + 1]
  local job = load_with(ARGV[i], id)
  local run, status, ending = find(job, id)
  found[#found + 1] =
    { known(job.newest_started), known(job.newest_skipped), run and standing(run, status, ending) or false }
end
return { now, found }
