-- write: a checkpoint, a value of the tenant, or log lines; once per number and within the quota.
--
-- Keys: see lib/job.lua.
-- Arguments: 1 job  2 run  3 token  4 number, 20 digits  5 lane: effects, log  6 larger than any quota allows: 1 or 0
--   7 quota of the tenant, bytes  8 change, and from 9 on its parts
--     save-state data | kv-set key value | kv-delete key | kv-compare-and-set key value expected?(1 or 0) expected
--     | append-log bytes line...
-- Answers: now, revision, and  done | not-done | too-large | over-quota | past | refused

-- leasehold_lease::write::ENTRY: bytes that each stored thing counts besides its content.
local ENTRY = 64

local name, id, token, number, change = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[8]
local now = clock()
local job = load_with(name, id)
local run = job.runs[id]
if not run or run.token ~= token or run.released then
  return answered(job, now, 'refused')
end
local tail, last, last_answer = read_tail(run), 'last_write', 'write_answer'
if ARGV[5] == 'log' then
  last, last_answer = 'last_log', 'log_answer'
end
-- S13: the newest write sent again gets the first answer, an older copy changes nothing. (Numbers are as large as 64
-- bits, so they are compared as digits.)
local newest = tail[last] or string.rep('0', 20)
if number == newest then
  return answered(job, now, tail[last_answer] or 'done')
end
if number < newest then
  return answered(job, now, 'past')
end

-- The size of the value that is there; nil where there is none.
local function present_size(key)
  local size = redis.call('HSTRLEN', KEYS[1] .. 'kv', key)
  if size > 0 or redis.call('HEXISTS', KEYS[1] .. 'kv', key) == 1 then
    return size
  end
end

local function as_expected(key)
  if change == 'kv-delete' then
    return present_size(key) ~= nil
  elseif change == 'kv-compare-and-set' then
    local expected = ARGV[11] == '1' and ARGV[12]
    return redis.call('HGET', KEYS[1] .. 'kv', key) == expected
  end
  return true
end

-- By how much the change makes what the tenant stores grow.
local function growth(key)
  if change == 'save-state' then
    local former = run.state_size >= 0 and run.state_size + ENTRY or 0
    return #ARGV[9] + ENTRY - former
  elseif change == 'append-log' then
    return tonumber(ARGV[9])
  end
  local size = present_size(key)
  local former = size and #key + size + ENTRY or 0
  return (change == 'kv-delete' and 0 or #key + #ARGV[10] + ENTRY) - former
end

local function judge(key)
  if ARGV[6] == '1' then
    return 'too-large'
  elseif not as_expected(key) then
    return 'not-done'
  end
  local more = growth(key)
  local stored = tonumber(redis.call('GET', KEYS[1] .. 'stored') or 0)
  -- What shrinks is always written, or a full tenant could not help itself.
  if more > 0 and stored + more > tonumber(ARGV[7]) then
    return 'over-quota'
  end
  return 'done', more
end

local function append()
  local lines, key = {}, KEYS[1] .. 'log:' .. name .. ':' .. id
  for i = 10, #ARGV do
    lines[#lines + 1] = run.attempt .. ' ' .. ARGV[i]
    -- unpack has room for some thousands.
    if #lines == 1000 or i == #ARGV then
      redis.call('RPUSH', key, unpack(lines))
      lines = {}
    end
  end
end

local function carry_out(key, more)
  if change == 'save-state' then
    redis.call('HSET', KEYS[1] .. 'state:' .. name, id, ARGV[9])
    run.state_size = #ARGV[9]
    job.stored = job.stored + more
  elseif change == 'append-log' then
    append()
    run.kept_size, job.stored = run.kept_size + more, job.stored + more
  elseif change == 'kv-delete' then
    redis.call('HDEL', KEYS[1] .. 'kv', key)
    redis.call('ZREM', KEYS[1] .. 'kv-keys', key)
    redis.call('INCRBY', KEYS[1] .. 'stored', more)
  else
    redis.call('HSET', KEYS[1] .. 'kv', key, ARGV[10])
    redis.call('ZADD', KEYS[1] .. 'kv-keys', 0, key)
    redis.call('INCRBY', KEYS[1] .. 'stored', more)
  end
end

local key = ARGV[9]
local written, more = judge(key)
if written == 'done' then
  carry_out(key, more)
end
-- A refusal for its size is remembered too: a copy must not be done after its sender was told so.
tail[last], tail[last_answer] = number, written
keep_tail(run, tail)
touch(job, run)
return answered(job, now, written)
