-- heartbeats: renews the leases of many attempts of one tenant.
--
-- Keys: see lib/job.lua.
-- Arguments, four a heartbeat: job, run, token, the newest progress report (empty: none).
-- Answers, one a heartbeat: now, revision, and  renewed lease-end cancelled(1 or 0) | refused
-- or, where the record cannot be read:          nothing, the reason

local now = clock()
on_master()

local function renew(name, id, token, progress)
  local job = load_with(name, id)
  local run = job.runs[id]
  -- S4: ok exactly when the token is current and the run is running and not released.
  -- S5: so a heartbeat sent before the release does not renew it.
  if not run or run[TOKEN] ~= token or run[RELEASED] then
    return { now, job.numbers[REVISION], 'refused' }
  end
  run[LEASE_END] = now + run[LEASE]
  if progress ~= '' then
    run[PROGRESS] = progress
  end
  touch(job, id)
  return answered(job, now, 'renewed', run[LEASE_END], run[CANCELLED] and 1 or 0)
end

local answers = {}
for i = 1, #ARGV, 4 do
  local sound, answer = pcall(renew, ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
  if not sound then
    -- One record that cannot be read does not spoil the others.
    answer = { false, type(answer) == 'table' and answer.err or tostring(answer) }
  end
  answers[#answers + 1] = answer
end
return answers
