-- A job, its numbers and its running runs: loading, changing, saving once.
--
-- Keys: KEYS[1] is the prefix `leasehold:{<namespace>/<tenant>}:` that all keys of a tenant begin with. Its hash tag
-- lets one script touch them all, in a cluster too.
--   job:<name>            hash: `numbers`, `offer` (since, fingerprint, last offered), `hold` (until, note), and one
--                         field per running run. A claim reads it at once and nothing else that grows.
--   pending:<name>        hash: on-demand run -> when it was asked for
--   final:<name>          hash: final run -> its record
--   due:<name>            sorted set of the final runs, newest first: the score is minus the due time
--   payload:<name>        hash: on-demand run -> what it works on
--   state:<name>          hash: run -> its checkpoint
--   attempts:<name>:<run> hash: token -> an attempt before the newest one
--   log:<name>:<run>      list of the run's log entries
--   gone:<name>           sorted set: pruned on-demand run -> when it was pruned
--   told:<name>           list of what hosts were told, newest first
--   jobs, open            sorted sets, by name: all jobs; jobs with unfinished runs
--   kv, kv-keys           hash of the tenant's values; its keys in the order of their bytes
--   stored                bytes that count against the tenant's quota
-- A run is named by its slot in decimal digits, or by `:` and the on-demand run's id: no field's name is like that.
--
-- Records are packed arrays. Numbers are whole and below 2^53, which is what a Lua number can hold; larger ones come
-- and go as text. A value that is missing is `false`, for an array may have no hole.

-- A job's numbers. HIGHEST_WON is the highest slot that ever started; unblocking does not lower it.
local REVISION, NEWEST_STARTED, NEWEST_SKIPPED, LAST_FENCE, LARGEST_BOUND = 1, 2, 3, 4, 5
local STORED, UNFINISHED, HIGHEST_WON = 6, 7, 8

-- A run; from ATTEMPT to USAGE its newest attempt; the last three only once it is final.
local DUE, LEASE_END, RELEASED, STARTS, HAND_OVERS = 1, 2, 3, 4, 5
local STATE_SIZE, KEPT_SIZE, CANCELLED, PROGRESS = 6, 7, 8, 9
local ATTEMPT, TOKEN, FENCE, LEASE, STARTED_AT, META = 10, 11, 12, 13, 14, 15
local LAST_WRITE, WRITE_ANSWER, LAST_LOG, LOG_ANSWER = 16, 17, 18, 19
local ATTEMPT_ENDED_AT, ATTEMPT_END, USAGE = 20, 21, 22
local STATUS, ENDED_AT, OUTCOME = 23, 24, 25

-- leasehold_lease::write::ENTRY: bytes that each stored thing counts besides its content.
local ENTRY = 64

local prefix = KEYS[1]
local pack, unpacked = cmsgpack.pack, cmsgpack.unpack

local function key_of(kind, name)
  return prefix .. kind .. ':' .. name
end

-- A server that has become a replica must not answer from what it still knows (S12): this write to a key that never
-- exists changes nothing, and fails there. A script that begins with it also goes on when the server is out of memory:
-- that is for the verbs that end runs or keep them going, and bring little.
local function on_master()
  redis.call('HDEL', prefix .. 'never', '')
end

local function job_of(name, numbers)
  numbers = numbers and unpacked(numbers) or { 0, false, false, 0, 0, 0, 0, false }
  return {
    name = name,
    key = key_of('job', name),
    numbers = numbers,
    unfinished_before = numbers[UNFINISHED],
    stored_before = numbers[STORED],
    runs = {},
    touched = {},
    changed = false,
  }
end

-- The job with one of its runs, if that is running.
local function load_with(name, id)
  local found = redis.call('HMGET', key_of('job', name), 'numbers', id)
  local job = job_of(name, found[1])
  if found[2] then
    job.runs[id] = unpacked(found[2])
  end
  return job
end

-- The job with all its running runs.
local function load(name)
  local flat = redis.call('HGETALL', key_of('job', name))
  local numbers, offer, hold, runs = nil, nil, nil, {}
  for i = 1, #flat, 2 do
    local field = flat[i]
    if field == 'numbers' then
      numbers = flat[i + 1]
    elseif field == 'offer' then
      offer = flat[i + 1]
    elseif field == 'hold' then
      hold = flat[i + 1]
    else
      runs[field] = unpacked(flat[i + 1])
    end
  end
  local job = job_of(name, numbers)
  job.runs = runs
  job.offer = offer and unpacked(offer)
  job.hold = hold and unpacked(hold)
  return job
end

local function new_run(due)
  return {
    due, 0, false, 0, 0,
    false, 0, false, false,
    0, false, 0, 0, 0, false,
    false, false, false, false,
    false, false, false,
  }
end

-- The slot of a scheduled run; nil for an on-demand one.
local function slot_of(id)
  return tonumber(id)
end

-- Whether run `a` sorts before run `b`: slots first, by time; then on-demand runs, by the bytes of their ids. (Lua
-- compares strings by the server's locale.)
local function before(a, b)
  local a_slot, b_slot = slot_of(a), slot_of(b)
  if a_slot and b_slot then
    return a_slot < b_slot
  elseif a_slot or b_slot then
    return a_slot ~= nil
  end
  for i = 2, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end

-- Running, and its runner was alive recently; `run` is running by its status.
local function live(run, now)
  return not run[RELEASED] and now <= run[LEASE_END]
end

-- The record of a final run.
local function final_run(job, id)
  local record = redis.call('HGET', key_of('final', job.name), id)
  return record and unpacked(record)
end

-- A run in whatever status, and that status.
local function find(job, id)
  if job.runs[id] then
    return job.runs[id], 'running'
  end
  if string.byte(id) == 58 then
    local due = redis.call('HGET', key_of('pending', job.name), id)
    if due then
      return new_run(tonumber(due)), 'pending'
    end
  end
  local run = final_run(job, id)
  if run then
    return run, run[STATUS]
  end
end

-- Remembers that a running run has changed.
local function touch(job, id)
  job.touched[id] = true
  job.changed = true
end

-- Counts bytes that are kept beside a run, or no longer (less than 0).
local function keep(job, run, size)
  run[KEPT_SIZE] = run[KEPT_SIZE] + size
  job.numbers[STORED] = job.numbers[STORED] + size
end

-- Writes what has changed, in one revision.
local function save(job)
  local numbers = job.numbers
  local created = numbers[REVISION] == 0
  numbers[REVISION] = numbers[REVISION] + 1
  local fields = { 'numbers', pack(numbers) }
  for id in pairs(job.touched) do
    if job.runs[id] then
      fields[#fields + 1] = id
      fields[#fields + 1] = pack(job.runs[id])
    end
  end
  redis.call('HSET', job.key, unpack(fields))
  if created then
    redis.call('ZADD', prefix .. 'jobs', 0, job.name)
  end
  if numbers[UNFINISHED] > 0 and job.unfinished_before == 0 then
    redis.call('ZADD', prefix .. 'open', 0, job.name)
  elseif numbers[UNFINISHED] == 0 and job.unfinished_before > 0 then
    redis.call('ZREM', prefix .. 'open', job.name)
  end
  if numbers[STORED] ~= job.stored_before then
    redis.call('INCRBY', prefix .. 'stored', numbers[STORED] - job.stored_before)
  end
end

-- Every verb ends here: the answer with the store's clock and the revision, after what changed is written.
local function answered(job, now, ...)
  if job.changed then
    save(job)
  else
    on_master()
  end
  return { now, job.numbers[REVISION], ... }
end
