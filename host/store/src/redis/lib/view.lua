-- What is shown of runs.

-- All that is kept of a run: run, status, record, payload, the attempts before the newest one in no order.
local function view(job, id, run, status)
  local payload = string.byte(id) == 58 and redis.call('HGET', key_of('payload', job.name), id)
  local older = {}
  if run[ATTEMPT] > 1 then
    for _, attempt in ipairs(redis.call('HVALS', key_of('attempts', job.name) .. ':' .. id)) do
      older[#older + 1] = unpacked(attempt)
    end
  end
  return { id, status, run, payload, older }
end

-- Where a run stands: status, due, lease end, released, attempt, lease, and why it was given up.
local function standing(run, status)
  local reason = status == 'interrupted' and run[OUTCOME]
  return { status, run[DUE], run[LEASE_END], run[RELEASED], run[ATTEMPT], run[LEASE], reason }
end

-- The pending runs of a job: run, when it was asked for, and so on.
local function pending_of(name)
  return redis.call('HGETALL', key_of('pending', name))
end
