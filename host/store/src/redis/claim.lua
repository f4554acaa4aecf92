-- claim: a request to start a run, answered atomically.
--
-- Keys: see lib/job.lua.
-- Arguments:
--   1 job  2 run  3 kind: slot, catch-up, takeover, on-demand  4 token  5 not after, ms
--   6 late after, ms behind the slot (the bound and the grace; empty where a claim creates nothing)
--   7 early before, ms ahead of the slot (the grace)  8 lease, ms  9 most attempts  10 overlap: skip, allow
--   11 the largest bound of the policy, ms  12 what else is said of the attempt
-- Answers: now, revision, and
--   won attempt fence payload | ended status | running attempt lease-end | overlap run | stale | none newest-started
--   | late | early | superseded newest-started | held until | old

local name, id, kind, token = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local lease, max_attempts, skips = tonumber(ARGV[8]), tonumber(ARGV[9]), ARGV[10] == 'skip'
local now = clock()
local job = load(name)
local numbers = job.numbers
local slot = slot_of(id)
-- leasehold_lease::run::ATTEMPTS_KEPT, the newest one not counted.
local OLDER_ATTEMPTS_KEPT = 999

-- Whether the token is the one of an attempt before the newest one.
local function was_token(run)
  return run[ATTEMPT] > 1 and redis.call('HEXISTS', key_of('attempts', name) .. ':' .. id, token) == 1
end

local function payload()
  return not slot and redis.call('HGET', key_of('payload', name), id)
end

-- Cuts every live lease that lies further ahead than it was given for: the store's clock was set back.
local function cut_back()
  for other, run in pairs(job.runs) do
    if live(run, now) and run[LEASE_END] > now + run[LEASE] then
      run[LEASE_END] = now + run[LEASE]
      touch(job, other)
    end
  end
end

-- S7: under skip, the newest live run that stands in the way.
local function in_the_way()
  local newest = nil
  for other, run in pairs(job.runs) do
    if skips and other ~= id and live(run, now) then
      local found = newest and job.runs[newest]
      if not found or run[DUE] > found[DUE] or (run[DUE] == found[DUE] and before(newest, other)) then
        newest = other
      end
    end
  end
  return newest
end

-- What was expired when another run started cannot come back to life: a scheduled win makes every older expired
-- scheduled run interrupted (S8), and under skip every other expired run is released, no hand-over counted (S7).
local function settle_others()
  local outrun = {}
  for other, run in pairs(job.runs) do
    if other ~= id and not live(run, now) then
      local older = slot_of(other)
      if slot and older and older < slot then
        outrun[#outrun + 1] = other
      elseif skips and not run[RELEASED] then
        run[RELEASED] = true
        touch(job, other)
      end
    end
  end
  for _, other in ipairs(outrun) do
    interrupt(job, other, job.runs[other], now, 'a newer slot started first')
  end
end

-- Puts the attempt that the next one follows beside the run. The newest thousand are kept.
local function keep_former(run)
  local key = key_of('attempts', name) .. ':' .. id
  if not run[ATTEMPT_ENDED_AT] then
    run[ATTEMPT_ENDED_AT], run[ATTEMPT_END] = now, 'lost'
  end
  redis.call('HSET', key, run[TOKEN], pack({ unpack(run, ATTEMPT, USAGE) }))
  if redis.call('HLEN', key) > OLDER_ATTEMPTS_KEPT then
    local kept = redis.call('HGETALL', key)
    local oldest, oldest_token = nil, nil
    for i = 1, #kept, 2 do
      local attempt = unpacked(kept[i + 1])[1]
      if not oldest or attempt < oldest then
        oldest, oldest_token = attempt, kept[i]
      end
    end
    redis.call('HDEL', key, oldest_token)
  end
end

-- Starts the next attempt and settles what was expired, in one revision. `run` is nil for a run that is new.
local function win(run, pending)
  settle_others()
  if not run then
    run = new_run(slot)
    numbers[UNFINISHED] = numbers[UNFINISHED] + 1
  elseif pending then
    redis.call('HDEL', key_of('pending', name), id)
  else
    keep_former(run)
  end
  -- S1: attempts are 1, 2, 3 ... without gaps. S8: the fence is above every one that the job has given out.
  local attempt = run[ATTEMPT] + 1
  local fence = math.max(numbers[LAST_FENCE] + 1, math.max(run[DUE], 0) * 1024 + attempt)
  run[LEASE_END], run[RELEASED], run[STARTS], run[PROGRESS] = now + lease, false, run[STARTS] + 1, false
  run[ATTEMPT], run[TOKEN], run[FENCE], run[LEASE], run[STARTED_AT], run[META] =
    attempt, token, fence, lease, now, ARGV[12]
  for field = LAST_WRITE, USAGE do
    run[field] = false
  end
  job.runs[id] = run
  touch(job, id)
  numbers[LAST_FENCE] = fence
  numbers[LARGEST_BOUND] = math.max(numbers[LARGEST_BOUND], tonumber(ARGV[11]))
  if slot then
    numbers[NEWEST_STARTED] = math.max(numbers[NEWEST_STARTED] or slot, slot)
    numbers[HIGHEST_WON] = math.max(numbers[HIGHEST_WON] or slot, slot)
  end
  return answered(job, now, 'won', attempt, fence, payload())
end

-- Remembers that the slot was skipped, so that it is not caught up.
local function skip()
  if not numbers[NEWEST_SKIPPED] or numbers[NEWEST_SKIPPED] < slot then
    numbers[NEWEST_SKIPPED] = slot
    job.changed = true
  end
end

-- A claim of a run that the store knows.
local function existing(run, status)
  if status ~= 'running' and status ~= 'pending' then
    return answered(job, now, 'ended', status)
  end
  if status == 'running' then
    if live(run, now) then
      return answered(job, now, 'running', run[ATTEMPT], run[LEASE_END])
    end
    local used, reason = run[STARTS] - run[HAND_OVERS], nil
    if run[CANCELLED] then
      -- Its runner died before it could end it.
      reason = run[CANCELLED]
    elseif slot and numbers[NEWEST_STARTED] and numbers[NEWEST_STARTED] > slot then
      reason = 'a newer slot has started'
    elseif used >= max_attempts then
      reason = string.format('its %d attempts are used up', used)
    end
    if reason then
      interrupt(job, id, run, now, reason)
      return answered(job, now, 'ended', 'interrupted')
    end
  end
  local with = in_the_way()
  if with then
    return answered(job, now, 'overlap', with)
  end
  return win(run, status == 'pending')
end

-- S10: a slot that ever won is never won as attempt 1 again, whatever was pruned.
local function superseded()
  if numbers[NEWEST_STARTED] and slot <= numbers[NEWEST_STARTED] then
    return true
  end
  local since = job.offer and job.offer[1]
  local skipped = numbers[NEWEST_SKIPPED] and slot <= numbers[NEWEST_SKIPPED]
  return kind == 'catch-up' and (skipped or not since or slot < since)
end

-- A claim of a run that the store does not know.
local function fresh()
  -- Only trigger creates an on-demand run, only a slot's own claim or a catch-up a scheduled one.
  if not slot or ARGV[6] == '' then
    return answered(job, now, 'none', numbers[NEWEST_STARTED])
  end
  -- S9: a scheduled run's first win is neither late nor early.
  if now > slot + tonumber(ARGV[6]) then
    return answered(job, now, 'late')
  end
  if slot > now + tonumber(ARGV[7]) then
    return answered(job, now, 'early')
  end
  if superseded() then
    return answered(job, now, 'superseded', numbers[NEWEST_STARTED])
  end
  if job.hold and (not job.hold[1] or now < tonumber(job.hold[1])) then
    skip()
    return answered(job, now, 'held', job.hold[1])
  end
  local with = in_the_way()
  if with then
    skip()
    return answered(job, now, 'overlap', with)
  end
  return win(nil, false)
end

-- A copy that its sender no longer waits for must not win with nobody listening.
if now > tonumber(ARGV[5]) then
  return answered(job, now, 'old')
end
-- Above the highest slot that ever won there is no record to look for.
local run, status = job.runs[id], 'running'
if not run and not (slot and slot > (numbers[HIGHEST_WON] or -math.huge)) then
  run, status = find(job, id)
end
-- A claim that was sent before: the token tells what became of it.
if run and run[TOKEN] == token and status == 'running' and live(run, now) then
  -- S13: a claim whose answer was lost gets the same attempt and fence.
  cut_back()
  return answered(job, now, 'won', run[ATTEMPT], run[FENCE], payload())
end
if run and (run[TOKEN] == token or was_token(run)) then
  -- S11: a stale token changes nothing.
  return answered(job, now, 'stale')
end
cut_back()
if run then
  return existing(run, status)
end
return fresh()
