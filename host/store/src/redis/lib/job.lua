-- A job, its numbers and its running runs: loading, changing, saving once.
--
-- Keys: KEYS[1] is the prefix `leasehold:{<namespace>/<tenant>}:` that all keys of a tenant begin with. Its hash tag
-- lets one script touch them all, in a cluster too.
--   job:<name>            hash: `numbers`, `offer` (since, fingerprint, last offered), `hold` (until, note, since), and one
--                         field per running run. A claim reads it at once and nothing else that grows.
--   pending:<name>        hash: on-demand run -> when it was asked for
--   final:<name>          hash: final run -> its record
--   due:<name>            sorted set of the final runs, the one due last in front: the score is minus the due time
--   payload:<name>        hash: on-demand run -> what it works on
--   state:<name>          hash: run -> its checkpoint
--   attempts:<name>:<run> hash: token -> the record of an attempt before the newest one
--   log:<name>:<run>      list of the run's log entries
--   gone:<name>           sorted set: pruned on-demand run -> when it was pruned
--   told:<name>           list of what hosts were told, newest first
--   jobs, open            sorted sets, by name: all jobs; jobs with unfinished runs
--   kv, kv-keys           hash of the tenant's values; its keys in the order of their bytes
--   stored                bytes that count against the tenant's quota
--   never                 does not exist; it is KEYS[2]
-- A run is named by its slot in decimal digits, or by `:` and the on-demand run's id: no field's name is like that.
--
-- A record is a head of fixed length, whose numbers are doubles, and a tail (lib/tail.lua); behind that of a final run
-- stands its end (lib/find.lua). Numbers are whole and below 2^53, which a double holds; larger ones come and go as
-- text. In place of a number that is missing stands the least one, -inf; of another value, false.
--
-- All this runs for every call, so it is written to be cheap: functions catch little from outside, which they would pay
-- for each time they are made, and finish.lua and heartbeats.lua change the parts of a record where they lie.

-- A server that has become a replica must not answer from what it still knows (S12): this write to a key that never
-- exists changes nothing, and fails there. A script that begins with it also goes on when the server is out of memory:
-- that is for the verbs that end runs or keep them going, and bring little.
local function on_master()
  redis.call('HDEL', KEYS[2], '')
end

-- A number, or false where it is missing.
local function known(number)
  return number > -math.huge and number
end

-- The job of these numbers; without them, one that does not exist yet.
local function job_of(name, text)
  local revision, unfinished, stored, started, skipped = 0, 0, 0, -math.huge, -math.huge
  local fence, bound, won = 0, 0, -math.huge
  if text then
    revision, unfinished, stored, started, skipped, fence, bound, won = struct.unpack('<dddddddd', text)
  end
  return {
    name = name,
    key = KEYS[1] .. 'job:' .. name,
    revision = revision,
    newest_started = started,
    newest_skipped = skipped,
    last_fence = fence,
    largest_bound = bound,
    stored = stored,
    unfinished = unfinished,
    -- The highest slot that ever started: unblocking does not lower it.
    highest_won = won,
    stored_before = stored,
    unfinished_before = unfinished,
    runs = false,
    offer = false,
    hold = false,
    changed = false,
  }
end

-- The run of a record.
local function read_run(text)
  local lease_end, lease, flags, token, due, starts, hand_overs, attempt, fence, started_at, state_size, kept_size,
    attempt_ended_at, ended_at, at = struct.unpack('<ddBc16dI4I4I4dddddd', text)
  return {
    lease_end = lease_end,
    lease = lease,
    released = flags % 2 == 1,
    cancelled = flags >= 2,
    token = token,
    due = due,
    starts = starts,
    hand_overs = hand_overs,
    attempt = attempt,
    fence = fence,
    started_at = started_at,
    state_size = state_size,
    kept_size = kept_size,
    attempt_ended_at = attempt_ended_at,
    ended_at = ended_at,
    tail = string.sub(text, at),
    touched = false,
  }
end

local function run_text(run)
  local flags = (run.released and 1 or 0) + (run.cancelled and 2 or 0)
  return struct.pack('<ddBc16dI4I4I4dddddd', run.lease_end, run.lease, flags, run.token, run.due, run.starts,
    run.hand_overs, run.attempt, run.fence, run.started_at, run.state_size, run.kept_size, run.attempt_ended_at,
    run.ended_at) .. run.tail
end

-- A run that nobody has started.
local function new_run(due)
  return {
    lease_end = 0,
    lease = 0,
    released = false,
    cancelled = false,
    token = string.rep('\0', 16),
    due = due,
    starts = 0,
    hand_overs = 0,
    attempt = 0,
    fence = 0,
    started_at = 0,
    state_size = -math.huge,
    kept_size = 0,
    attempt_ended_at = -math.huge,
    ended_at = -math.huge,
    -- An empty one.
    tail = string.rep('\0', 8),
    touched = false,
  }
end

-- The job with one of its runs, if that is running.
local function load_with(name, id)
  local found = redis.call('HMGET', KEYS[1] .. 'job:' .. name, 'numbers', id)
  local job = job_of(name, found[1])
  job.runs = { [id] = found[2] and read_run(found[2]) or nil }
  return job
end

-- The job with all its running runs.
local function load(name)
  local flat = redis.call('HGETALL', KEYS[1] .. 'job:' .. name)
  local fields, runs = {}, {}
  for i = 1, #flat, 2 do
    local field = flat[i]
    if field == 'numbers' or field == 'offer' or field == 'hold' then
      fields[field] = flat[i + 1]
    else
      runs[field] = read_run(flat[i + 1])
    end
  end
  local job = job_of(name, fields.numbers)
  job.runs = runs
  job.offer = fields.offer and cmsgpack.unpack(fields.offer)
  job.hold = fields.hold and cmsgpack.unpack(fields.hold)
  return job
end

-- Whether a clock that was ahead has begun a hold, as it is stored. leasehold_lease::policy::CLOCK_GRACE.
local function is_ahead(hold, now)
  return hold[3] and tonumber(hold[3]) > now + 10000
end

-- Whether a hold, as it is stored, is in force. One that ends by itself, or has ended, and that a clock that was ahead has
-- begun, is not.
local function holds(hold, now)
  return not hold[1] or now < tonumber(hold[1]) and not is_ahead(hold, now)
end

-- Running, and its runner was alive recently; `run` is running by its status.
local function live(run, now)
  return not run.released and now <= run.lease_end
end

-- Remembers that a running run has changed.
local function touch(job, run)
  run.touched = true
  job.changed = true
end

-- Writes what has changed, in one revision.
local function save(job)
  local created = job.revision == 0
  job.revision = job.revision + 1
  local fields = {
    'numbers',
    struct.pack('<dddddddd', job.revision, job.unfinished, job.stored, job.newest_started, job.newest_skipped,
      job.last_fence, job.largest_bound, job.highest_won),
  }
  for id, run in pairs(job.runs) do
    if run.touched then
      fields[#fields + 1] = id
      fields[#fields + 1] = run_text(run)
    end
  end
  -- A call takes some thousand arguments, and a win may touch more runs than that.
  for i = 1, #fields, 1000 do
    redis.call('HSET', job.key, unpack(fields, i, math.min(i + 999, #fields)))
  end
  if created then
    redis.call('ZADD', KEYS[1] .. 'jobs', 0, job.name)
  end
  if job.unfinished > 0 and job.unfinished_before == 0 then
    redis.call('ZADD', KEYS[1] .. 'open', 0, job.name)
  elseif job.unfinished == 0 and job.unfinished_before > 0 then
    redis.call('ZREM', KEYS[1] .. 'open', job.name)
  end
  if job.stored ~= job.stored_before then
    redis.call('INCRBY', KEYS[1] .. 'stored', job.stored - job.stored_before)
  end
end

-- Every verb ends here: the answer with the store's clock and the revision, after what changed is written.
local function answered(job, now, ...)
  if job.changed then
    save(job)
  else
    on_master()
  end
  return { now, job.revision, ... }
end
