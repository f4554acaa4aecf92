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
local numbers = job.numbers
local kept_for = numbers[LARGEST_BOUND] + tonumber(ARGV[3])

-- S10: after an unblock the record alone says that a slot above the newest started one has run.
local function remembered(id)
  local slot = slot_of(id)
  return not slot or (numbers[NEWEST_STARTED] and slot <= numbers[NEWEST_STARTED])
end

-- S15: a run stays while a claim for it could still be in time.
local function doomed()
  local found, spare = {}, redis.call('ZCARD', key_of('due', name)) - tonumber(ARGV[2])
  local at = 0
  while at < spare and #found < most do
    local last = math.min(at + 999, spare - 1)
    local page = redis.call('ZREVRANGE', key_of('due', name), at, last, 'WITHSCORES')
    for i = 1, #page, 2 do
      local id, due = page[i], -tonumber(page[i + 1])
      if now <= due + kept_for then
        -- All that follow are younger.
        return found
      end
      if #found < most and remembered(id) then
        local run = final_run(job, id)
        if now > run[ENDED_AT] + kept_for then
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
  redis.call('HDEL', key_of('final', name), id)
  redis.call('ZREM', key_of('due', name), id)
  redis.call('UNLINK', key_of('log', name) .. ':' .. id, key_of('attempts', name) .. ':' .. id)
  numbers[STORED] = numbers[STORED] - run[KEPT_SIZE]
  if not slot_of(id) then
    redis.call('HDEL', key_of('payload', name), id)
    redis.call('ZADD', key_of('gone', name), now, id)
  end
  job.changed = true
end
if redis.call('ZREMRANGEBYSCORE', key_of('gone', name), '-inf', '(' .. string.format('%.0f', forgotten)) > 0 then
  job.changed = true
end
return answered(job, now, #runs)
