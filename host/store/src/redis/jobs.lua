-- jobs: what is known of jobs of one tenant, each with its newest run.
--
-- Keys: see lib/job.lua.
-- Arguments: how far ahead of it a due time is still of the present, ms; the jobs
-- Answers: now; for each job: 1, revision, newest started, newest skipped, its offer (since, fingerprint, last
--   offered), its hold (until, note, since), bytes stored, unfinished runs, and its newest run as lib/view.lua shows it in brief; or,
--   where a record cannot be read: nothing, the reason

local now = clock()
-- What is due later stands behind all others: a clock that was ahead has made it.
local present = now + tonumber(ARGV[1])

-- Whether run `a` of this due time stands in front of run `b`, newest first.
local function newer(due, a, other_due, b)
  if (due > present) ~= (other_due > present) then
    return due <= present
  end
  return due > other_due or (due == other_due and before(a, b))
end

-- The newest run, the first of several.
local function newest(job)
  local id, run, status, ending = nil, nil, nil, nil
  local function offer(other, record, its, end_of_it)
    if not id or newer(record.due, other, run.due, id) then
      id, run, status, ending = other, record, its, end_of_it
    end
  end
  for other, record in pairs(job.runs) do
    offer(other, record, 'running')
  end
  local pending = pending_of(job.name)
  for i = 1, #pending, 2 do
    offer(pending[i], new_run(tonumber(pending[i + 1])), 'pending')
  end
  local finals, first = KEYS[1] .. 'due:' .. job.name, string.format('%.0f', -present)
  local last = redis.call('ZRANGEBYSCORE', finals, first, '+inf', 'LIMIT', 0, 1)[1]
    or redis.call('ZRANGE', finals, 0, 0)[1]
  if last then
    local record, end_of_it = final_run(job, last)
    offer(last, record, end_of_it[1], end_of_it)
  end
  return id and view(job, id, run, status, ending, true)
end

local function look(name)
  local job = load(name)
  return {
    1, job.revision, known(job.newest_started), known(job.newest_skipped),
    job.offer or false, job.hold or false, job.stored, job.unfinished, newest(job) or false,
  }
end

local found = {}
for i = 2, #ARGV do
  found[#found + 1] = apart(look, ARGV[i])
end
return { now, found }
