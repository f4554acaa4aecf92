-- history: the runs of one job, newest first, in pages.
--
-- Keys: see lib/job.lua.
-- Arguments: 1 job  2 status (empty: any)  3 due at or after, ms  4 where in the final runs this page begins; the first
--   one has the unfinished runs too  5 final runs to look at  6 the end of the present, ms: what is due later stands
--   behind all others, for a clock that was ahead has made it  7 of that, due at or after, ms: later than the present
-- Answers: now; the runs as lib/view.lua shows them, the unfinished ones in no order; where the next page begins
--   (nothing: there is none)

local name, status, since = ARGV[1], ARGV[2], tonumber(ARGV[3])
local from, size = tonumber(ARGV[4]), tonumber(ARGV[5])
local present, since_ahead = tonumber(ARGV[6]), tonumber(ARGV[7])
local now = clock()
local runs, job = {}, nil

local function asked(run, its)
  return (status == '' or status == its) and run.due >= since
end

-- The score of a due time in the set of final runs.
local function score(due)
  return string.format('%.0f', -due)
end

-- The final runs of this page.
local function page()
  local key, first, last = KEYS[1] .. 'due:' .. name, score(present), score(since)
  local ids = redis.call('ZRANGEBYSCORE', key, first, last, 'LIMIT', from, size)
  if #ids < size then
    local at = from > 0 and math.max(0, from - redis.call('ZCOUNT', key, first, last)) or 0
    local ahead = redis.call('ZRANGEBYSCORE', key, '-inf', score(since_ahead), 'LIMIT', at, size - #ids)
    for _, id in ipairs(ahead) do
      ids[#ids + 1] = id
    end
  end
  return ids
end

if from == 0 then
  job = load(name)
  for id, run in pairs(job.runs) do
    if asked(run, 'running') then
      runs[#runs + 1] = view(job, id, run, 'running')
    end
  end
  local pending = pending_of(name)
  for i = 1, #pending, 2 do
    local run = new_run(tonumber(pending[i + 1]))
    if asked(run, 'pending') then
      runs[#runs + 1] = view(job, pending[i], run, 'pending')
    end
  end
else
  job = job_of(name)
end
if status == 'running' or status == 'pending' then
  return { now, runs, false }
end
local ids = page()
for _, id in ipairs(ids) do
  local run, ending = final_run(job, id)
  if asked(run, ending[1]) then
    runs[#runs + 1] = view(job, id, run, ending[1], ending)
  end
end
return { now, runs, #ids == size and from + size }
