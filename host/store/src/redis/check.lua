-- check: where runs of one tenant stand. It decides nothing.
--
-- Keys: see lib/job.lua.
-- Arguments, two a run: job, run.
-- Answers: now, and for each run: 1, newest started, newest skipped, and where it stands as lib/view.lua says (nothing:
-- no such run); or, where the record cannot be read: nothing, the reason

local function look(name, id)
  local job = load_with(name, id)
  local run, status, ending = find(job, id)
  return { 1, known(job.newest_started), known(job.newest_skipped), run and standing(run, status, ending) or false }
end

local now = clock()
local found = {}
for i = 1, #ARGV, 2 do
  found[#found + 1] = apart(look, ARGV[i], ARGV[i + 1])
end
return { now, found }
