-- jobs: what is known of jobs of one tenant, each with its newest run.
--
-- Keys: see lib/job.lua.
-- Arguments: the jobs
-- Answers: now; for each job: job, revision, newest started, newest skipped, its offer (since, fingerprint, last
--   offered), its hold (until, note), bytes stored, unfinished runs, and its newest run as lib/view.lua shows it

local now = clock()

-- The newest run by due time, the first of several.
local function newest(job)
  local id, run, status = nil, nil, nil
  local function offer(other, record, its)
    if not id or record[DUE] > run[DUE] or (record[DUE] == run[DUE] and before(other, id)) then
      id, run, status = other, record, its
    end
  end
  for other, record in pairs(job.runs) do
    offer(other, record, 'running')
  end
  local pending = pending_of(job.name)
  for i = 1, #pending, 2 do
    offer(pending[i], new_run(tonumber(pending[i + 1])), 'pending')
  end
  local last = redis.call('ZRANGE', key_of('due', job.name), 0, 0)[1]
  if last then
    local record = final_run(job, last)
    offer(last, record, record[STATUS])
  end
  return id and view(job, id, run, status)
end

local found = {}
for _, name in ipairs(ARGV) do
  local job = load(name)
  local numbers = job.numbers
  found[#found + 1] = {
    name, numbers[REVISION], numbers[NEWEST_STARTED], numbers[NEWEST_SKIPPED],
    job.offer or false, job.hold or false, numbers[STORED], numbers[UNFINISHED], newest(job) or false,
  }
end
return { now, found }
