-- Gives a run up, for this reason. `run` is running, pending, or new.
local function interrupt(job, id, run, now, reason)
  if run.attempt > 0 and run.attempt_ended_at == -math.huge then
    local tail = read_tail(run)
    run.attempt_ended_at, tail.attempt_end = now, 'expired'
    keep_tail(run, tail)
  end
  local state_size = run.state_size
  run.state_size, run.ended_at = -math.huge, now
  -- The end of a run that did not say so itself: an outcome, and nothing of usage.
  local ending = struct.pack('<I4c0', #reason + 1, 'i' .. reason)
  redis.call('HSET', KEYS[1] .. 'final:' .. job.name, id, run_text(run) .. ending)
  redis.call('ZADD', KEYS[1] .. 'due:' .. job.name, -run.due, id)
  if job.runs[id] then
    redis.call('HDEL', job.key, id)
    job.runs[id] = nil
  else
    redis.call('HDEL', KEYS[1] .. 'pending:' .. job.name, id)
  end
  job.unfinished = job.unfinished - 1
  -- S15: a run's checkpoint exists while it is pending or running.
  if state_size >= 0 then
    redis.call('HDEL', KEYS[1] .. 'state:' .. job.name, id)
    -- leasehold_lease::write::ENTRY: bytes that each stored thing counts besides its content.
    job.stored = job.stored - state_size - 64
  end
  job.changed = true
end
