-- prune: deletes final runs that nobody can ask for any more, the oldest first.
--
-- Keys: see lib/job.lua.
-- Arguments: 1 job  2 final runs to keep  3 the grace of every bound, ms  4 how long a pruned on-demand run's id is
--   remembered, ms  5 most runs to delete in this call
-- Answers: now, revision, how many runs were deleted

local name, most = ARGV[1], tonumber(ARGV[5])
local now = clock()
on_master()
local job = load_with(name, '')
local kept_for = job.largest_bound + tonumber(ARGV[3])

-- S10: after an unblock the record alone says that a slot above the newest started one has run.
local function remembered(id)
  local slot = tonumber(id)
  return not slot or slot <= job.newest_started
end

-- S15: a run stays while a claim for it could still be in time.
local function doomed()
  -- What is due later than the present stands behind all others: a clock that was ahead has made it, and it pushes none
  -- of them out.
  local present = string.format('%.0f', -(now + tonumber(ARGV[3])))
  local found, spare = {}, redis.call('ZCOUNT', KEYS[1] .. 'due:' .. name, present, '+inf') - tonumber(ARGV[2])
  local at = 0
  while at < spare and #found < most do
    local last = math.min(at + 999, spare - 1)
    local page = redis.call('ZREVRANGE', KEYS[1] .. 'due:' .. name, at, last, 'WITHSCORES')
    for i = 1, #page, 2 do
      local id, due = page[i], -tonumber(page[i + 1])
      if now <= due + kept_for then
        -- All that follow are younger.
        return found
      end
      if #found < most and remembered(id) then
        local run = final_run(job, id)
        if now > run.ended_at + kept_for then
          found[#found + 1] = { id, run }
        end
      end
    end
    at = last + 1
  end
  return found
end

local forgotten = now - tonumber(ARGV[4])
local runs = doomed()
for _, found in ipairs(runs) do
  local id, run = found[1], found[2]
  redis.call('HDEL', KEYS[1] .. 'final:' .. name, id)
  redis.call('ZREM', KEYS[1] .. 'due:' .. name, id)
  redis.call('UNLINK', KEYS[1] .. 'log:' .. name .. ':' .. id, KEYS[1] .. 'attempts:' .. name .. ':' .. id)
  job.stored = job.stored - run.kept_size
  if not tonumber(id) then
    redis.call('HDEL', KEYS[1] .. 'payload:' .. name, id)
    redis.call('ZADD', KEYS[1] .. 'gone:' .. name, now, id)
  end
  job.changed = true
end
if redis.call('ZREMRANGEBYSCORE', KEYS[1] .. 'gone:' .. name, '-inf', '(' .. string.format('%.0f', forgotten)) > 0 then
  job.changed = true
end
return answered(job, now, #runs)
