-- claim: a request to start a run, answered atomically.
--
-- Keys: see lib/job.lua.
-- Arguments: 1 job  2 run  3 token  4 numbers, as doubles and a byte:
--     not after, ms; late after, ms behind the slot (the bound and the grace; -inf where a claim creates nothing);
--     early before, ms ahead of the slot (the grace); lease, ms; most attempts; the largest bound of the policy, ms;
--     1 for overlap = skip, and 2 more for a catch-up
--   5 the tail of the attempt's record (lib/tail.lua)
-- Answers: now, revision, and
--   won attempt fence payload | ended status | running attempt lease-end | overlap run | stale | none newest-started
--   | late | early | superseded newest-started | held until | old

-- Whether the token is the one of an attempt before the newest one.
local function was_token(name, id, run, token)
  return run.attempt > 1 and redis.call('HEXISTS', KEYS[1] .. 'attempts:' .. name .. ':' .. id, token) == 1
end

-- What an on-demand run works on.
local function payload(name, id)
  return string.byte(id) == 58 and redis.call('HGET', KEYS[1] .. 'payload:' .. name, id)
end

-- Cuts every live lease that lies further ahead than it was given for: the store's clock was set back.
local function cut_back(job, now)
  for _, run in pairs(job.runs) do
    if live(run, now) and run.lease_end > now + run.lease then
      run.lease_end = now + run.lease
      touch(job, run)
    end
  end
end

-- S7: under skip, the newest live run that stands in the way.
local function in_the_way(job, ask)
  local newest, its_id = nil, nil
  for other, run in pairs(job.runs) do
    if ask.skips and other ~= ask.id and live(run, ask.now) then
      if not newest or run.due > newest.due or (run.due == newest.due and before(its_id, other)) then
        newest, its_id = run, other
      end
    end
  end
  return its_id
end

-- What was expired when another run started cannot come back to life: a scheduled win makes every older expired
-- scheduled run interrupted (S8), and under skip every other expired run is released, no hand-over counted (S7).
local function settle_others(job, ask)
  local outrun = {}
  for other, run in pairs(job.runs) do
    if other ~= ask.id and not live(run, ask.now) then
      local older = tonumber(other)
      if ask.slot and older and older < ask.slot then
        outrun[other] = run
      elseif ask.skips and not run.released then
        run.released = true
        touch(job, run)
      end
    end
  end
  for other, run in pairs(outrun) do
    interrupt(job, other, run, ask.now, 'a newer slot started first')
  end
end

-- Puts the attempt that the next one follows beside the run.
local function keep_former(job, id, run, now)
  local key = KEYS[1] .. 'attempts:' .. job.name .. ':' .. id
  if run.attempt_ended_at == -math.huge then
    local tail = read_tail(run)
    run.attempt_ended_at, tail.attempt_end = now, 'lost'
    keep_tail(run, tail)
  end
  redis.call('HSET', key, run.token, run_text(run))
  -- leasehold_lease::run::ATTEMPTS_KEPT, and one of them is the next.
  if redis.call('HLEN', key) > 999 then
    local kept, oldest = redis.call('HGETALL', key), nil
    for i = 1, #kept, 2 do
      local attempt = read_run(kept[i + 1])
      if not oldest or attempt.attempt < oldest.attempt then
        oldest = attempt
      end
    end
    redis.call('HDEL', key, oldest.token)
  end
end

-- Starts the next attempt and settles what was expired, in one revision. `run` is nil for a run that is new.
local function win(job, ask, run, status)
  local id, slot, now = ask.id, ask.slot, ask.now
  settle_others(job, ask)
  if not run then
    run = new_run(slot)
    job.unfinished = job.unfinished + 1
  elseif status == 'pending' then
    redis.call('HDEL', KEYS[1] .. 'pending:' .. job.name, id)
  else
    keep_former(job, id, run, now)
  end
  run.lease = ask.lease
  run.lease_end, run.released, run.starts = now + run.lease, false, run.starts + 1
  -- S1: attempts are 1, 2, 3 ... without gaps. S8: the fence is above every one that the job has given out.
  run.token, run.attempt = ARGV[3], run.attempt + 1
  -- It is exact up to 2^53: slots until the year 2248. Beyond, neighbouring fences may be equal.
  run.fence = math.max(job.last_fence + 1, math.max(run.due, 0) * 1024 + run.attempt)
  run.started_at, run.attempt_ended_at, run.tail = now, -math.huge, ARGV[5]
  job.runs[id] = run
  touch(job, run)
  job.last_fence = run.fence
  job.largest_bound = math.max(job.largest_bound, ask.bound)
  if slot then
    job.newest_started = math.max(job.newest_started, slot)
    job.highest_won = math.max(job.highest_won, slot)
  end
  return answered(job, now, 'won', run.attempt, run.fence, payload(job.name, id))
end

-- A claim of a run that the store knows.
local function existing(job, ask, run, status)
  local now, slot = ask.now, ask.slot
  if status ~= 'running' and status ~= 'pending' then
    return answered(job, now, 'ended', status)
  end
  if status == 'running' then
    if live(run, now) then
      return answered(job, now, 'running', run.attempt, run.lease_end)
    end
    local used, reason = run.starts - run.hand_overs, nil
    if run.cancelled then
      -- Its runner died before it could end it.
      reason = read_tail(run).reason
    elseif slot and job.newest_started > slot then
      reason = 'a newer slot has started'
    elseif used >= ask.max_attempts then
      reason = string.format('its %d attempts are used up', used)
    end
    if reason then
      interrupt(job, ask.id, run, now, reason)
      return answered(job, now, 'ended', 'interrupted')
    end
  end
  local with = in_the_way(job, ask)
  if with then
    return answered(job, now, 'overlap', with)
  end
  return win(job, ask, run, status)
end

-- Remembers that the slot was skipped, so that it is not caught up.
local function skip(job, slot)
  if job.newest_skipped < slot then
    job.newest_skipped = slot
    job.changed = true
  end
end

-- S10: a slot that ever won is never won as attempt 1 again, whatever was pruned.
local function superseded(job, ask)
  local slot = ask.slot
  if slot <= job.newest_started then
    return true
  end
  local since = job.offer and job.offer[1]
  return ask.catches_up and (slot <= job.newest_skipped or not since or slot < since)
end

-- However late it is asked for: what was due while the job was held back does not start when it is let go.
local function is_held(hold, ask)
  if not hold then
    return false
  end
  return holds(hold, ask.now) or hold[3] and ask.slot >= tonumber(hold[3]) and holds(hold, ask.slot)
end

-- A claim of a run that the store does not know.
local function fresh(job, ask)
  local slot, now = ask.slot, ask.now
  -- Only trigger creates an on-demand run, only a slot's own claim or a catch-up a scheduled one.
  if not slot or ask.late_after == -math.huge then
    return answered(job, now, 'none', known(job.newest_started))
  end
  -- S9: a scheduled run's first win is neither late nor early.
  if now > slot + ask.late_after then
    return answered(job, now, 'late')
  end
  if slot > now + ask.early_before then
    return answered(job, now, 'early')
  end
  if superseded(job, ask) then
    return answered(job, now, 'superseded', known(job.newest_started))
  end
  if is_held(job.hold, ask) then
    skip(job, slot)
    return answered(job, now, 'held', job.hold[1])
  end
  local with = in_the_way(job, ask)
  if with then
    skip(job, slot)
    return answered(job, now, 'overlap', with)
  end
  return win(job, ask)
end

-- What the arguments say is read in claim_first.lua, and the time with it.
local ask = {
  id = id,
  slot = slot,
  now = now,
  late_after = late_after,
  early_before = early_before,
  lease = lease,
  max_attempts = max_attempts,
  bound = bound,
  skips = flags % 2 == 1,
  catches_up = flags >= 2,
}
local job = load(name)
-- A copy that its sender no longer waits for must not win with nobody listening.
if now > not_after then
  return answered(job, now, 'old')
end
-- Above the highest slot that ever won there is no record to look for.
local run, status = job.runs[id], 'running'
if not run and not (slot and slot > job.highest_won) then
  run, status = find(job, id)
end
-- A claim that was sent before: the token tells what became of it.
if run and run.token == token and status == 'running' and live(run, now) then
  -- S13: a claim whose answer was lost gets the same attempt and fence.
  cut_back(job, now)
  return answered(job, now, 'won', run.attempt, run.fence, payload(name, id))
end
if run and ((run.attempt > 0 and run.token == token) or was_token(name, id, run, token)) then
  -- S11: a stale token changes nothing.
  return answered(job, now, 'stale')
end
cut_back(job, now)
if run then
  return existing(job, ask, run, status)
end
return fresh(job, ask)
