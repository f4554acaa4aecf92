-- announce: a host offers jobs of one tenant.
--
-- Keys: see lib/job.lua.
-- Arguments, two a job: job, fingerprint of its schedule.
-- Answers, one a job: now, revision, since, newest started, newest skipped, and the hold: until, note, since (nothing: none)
-- or, where the record cannot be read: nothing, the reason

local now = clock()

local function offer(name, fingerprint)
  local found = redis.call('HMGET', KEYS[1] .. 'job:' .. name, 'numbers', 'offer', 'hold')
  local job = job_of(name, found[1])
  job.runs = {}
  local former = found[2] and cmsgpack.unpack(found[2])
  local hold = found[3] and cmsgpack.unpack(found[3])
  -- Catching up begins where the job was first announced, or its schedule last changed.
  local since = now
  if former and former[1] and former[2] == fingerprint then
    -- One in the future was set while the clock was ahead: until then nothing would be caught up.
    since = math.min(former[1], now)
  end
  -- It ended long ago (leasehold_lease::run::HOLD_KEPT), or a clock that was ahead has begun it.
  if hold and hold[1] and (is_ahead(hold, now) or now > tonumber(hold[1]) + 86400000) then
    redis.call('HDEL', job.key, 'hold')
    hold = false
  end
  redis.call('HSET', job.key, 'offer', cmsgpack.pack({ since, fingerprint, now }))
  job.changed = true
  return answered(job, now, since, known(job.newest_started), known(job.newest_skipped), hold)
end

local answers = {}
-- A server that takes no writes at the moment says so here, for all of them: it is no fault of a record.
on_master()
for i = 1, #ARGV, 2 do
  answers[#answers + 1] = apart(offer, ARGV[i], ARGV[i + 1])
end
return answers
