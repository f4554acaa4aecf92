-- Runs in whatever status.

-- The record of a final run and its end: status, outcome, and, where the attempt itself has said so, how that ended and
-- what it used. Behind the record stand the outcome, its kind in front and its length before it, and the usage.
local function final_run(job, id)
  local record = redis.call('HGET', KEYS[1] .. 'final:' .. job.name, id)
  if not record then
    return nil
  end
  local run = read_run(record)
  local meta, extra, outcome, at = struct.unpack('<I4c0I4c0I4c0', run.tail)
  local kind, usage = string.sub(outcome, 1, 1), string.sub(run.tail, at)
  run.tail = string.sub(run.tail, 1, #meta + #extra + 8)
  local status = kind == 's' and 'success' or kind == 'f' and 'failed' or 'interrupted'
  local ending = { status, string.sub(outcome, 2), false, false }
  if usage ~= '' then
    ending[3], ending[4] = status == 'interrupted' and 'cancelled' or status, usage
  end
  return run, ending
end

-- A run, its status, and, once it is final, its end.
local function find(job, id)
  if job.runs[id] then
    return job.runs[id], 'running'
  end
  if string.byte(id) == 58 then
    local due = redis.call('HGET', KEYS[1] .. 'pending:' .. job.name, id)
    if due then
      return new_run(tonumber(due)), 'pending'
    end
  end
  local run, ending = final_run(job, id)
  if run then
    return run, ending[1], ending
  end
end
