-- heartbeats: renews the leases of many attempts of one tenant.
--
-- Keys: see lib/job.lua.
-- Arguments, four a heartbeat: job, run, token, the newest progress report (empty: none).
-- Answers, one a heartbeat: now, revision, and  renewed lease-end cancelled(1 or 0) | refused
-- or, where the record cannot be read:          nothing, the reason

-- The parts of the records that a heartbeat looks at are read and written where they lie: it is what comes most often.
local function renew(now, name, id, token, progress)
  local key = KEYS[1] .. 'job:' .. name
  local found = redis.call('HMGET', key, 'numbers', id)
  local numbers, record = found[1], found[2]
  local revision = numbers and struct.unpack('<d', numbers) or 0
  local _, lease, flags, current = 0, 0, 0, false
  if record then
    _, lease, flags, current = struct.unpack('<ddBc16', record)
  end
  -- S4: ok exactly when the token is current and the run is running and not released.
  -- S5: so a heartbeat sent before the release does not renew it.
  if current ~= token or flags % 2 == 1 then
    return { now, revision, 'refused' }
  end
  local lease_end = now + lease
  if progress == '' then
    record = struct.pack('<d', lease_end) .. string.sub(record, 9)
  else
    local run = read_run(record)
    local tail = read_tail(run)
    run.lease_end, tail.progress = lease_end, progress
    keep_tail(run, tail)
    record = run_text(run)
  end
  numbers = struct.pack('<d', revision + 1) .. string.sub(numbers, 9)
  redis.call('HSET', key, 'numbers', numbers, id, record)
  return { now, revision + 1, 'renewed', lease_end, flags >= 2 and 1 or 0 }
end

local now, answers = clock(), {}
on_master()
for i = 1, #ARGV, 4 do
  answers[#answers + 1] = apart(renew, now, ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
end
return answers
