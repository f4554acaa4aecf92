-- What is shown of runs.

-- An attempt: number, token, fence, when it started, what its claim said, its newest writes, when and how it ended,
-- what it used.
local function attempt_of(run, ending)
  local tail = read_tail(run)
  return {
    run.attempt, run.token, run.fence, run.started_at, tail.meta,
    tail.last_write, tail.write_answer, tail.last_log, tail.log_answer,
    known(run.attempt_ended_at), ending and ending[3] or tail.attempt_end, ending and ending[4] or tail.usage,
  }
end

-- All that is kept of a run: run, status, numbers and texts, outcome, payload, and its attempts in no order. In brief
-- without what may be large: its payload, its output and its older attempts.
local function view(job, id, run, status, ending, brief)
  local payload = not brief and string.byte(id) == 58 and redis.call('HGET', KEYS[1] .. 'payload:' .. job.name, id)
  local outcome = ending and ending[2] or false
  if brief and status == 'success' then
    outcome = '1'
  end
  local attempts, tail = {}, read_tail(run)
  if run.attempt > 0 then
    attempts[1] = attempt_of(run, ending)
  end
  if run.attempt > 1 and not brief then
    for _, older in ipairs(redis.call('HVALS', KEYS[1] .. 'attempts:' .. job.name .. ':' .. id)) do
      attempts[#attempts + 1] = attempt_of(read_run(older))
    end
  end
  return {
    id, status, run.due, run.lease_end, run.released, run.starts, run.hand_overs, known(run.state_size), run.kept_size,
    tail.reason, tail.progress, known(run.ended_at), outcome, payload, attempts,
  }
end

-- Where a run stands: status, due, lease end, released, attempt, lease, and why it was given up.
local function standing(run, status, ending)
  local reason = status == 'interrupted' and ending[2]
  return { status, run.due, run.lease_end, run.released, run.attempt, run.lease, reason }
end

-- The pending runs of a job: run, when it was asked for, and so on.
local function pending_of(name)
  return redis.call('HGETALL', KEYS[1] .. 'pending:' .. name)
end
