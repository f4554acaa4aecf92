-- How runs become final.

-- Moves a run to the final ones. `run` is running, pending, or new.
local function settle(job, id, run, now, status, outcome)
  local state_size = run[STATE_SIZE]
  run[STATE_SIZE] = false
  run[STATUS], run[ENDED_AT], run[OUTCOME] = status, now, outcome
  redis.call('HSET', key_of('final', job.name), id, pack(run))
  redis.call('ZADD', key_of('due', job.name), -run[DUE], id)
  if job.runs[id] then
    redis.call('HDEL', job.key, id)
    job.runs[id] = nil
  else
    redis.call('HDEL', key_of('pending', job.name), id)
  end
  local numbers = job.numbers
  numbers[UNFINISHED] = numbers[UNFINISHED] - 1
  -- S15: a run's checkpoint exists while it is pending or running.
  if state_size then
    redis.call('HDEL', key_of('state', job.name), id)
    numbers[STORED] = numbers[STORED] - state_size - ENTRY
  end
  job.changed = true
end

-- Gives a run up, for this reason.
local function interrupt(job, id, run, now, reason)
  if run[TOKEN] and not run[ATTEMPT_ENDED_AT] then
    run[ATTEMPT_ENDED_AT], run[ATTEMPT_END] = now, 'expired'
  end
  settle(job, id, run, now, 'interrupted', reason)
end
