-- hold: holds a job back, or lets it go.
--
-- Keys: see lib/job.lua.
-- Arguments: 1 job  2 hold or let-go  3 until, ms (empty: until it is let go)  4 note
-- Answers: now, revision

local now = clock()
local job = load(ARGV[1])
local former = job.hold
local till = ARGV[3] ~= '' and ARGV[3]
local hold = ARGV[2] == 'hold' and { till, ARGV[4] }
if hold and former and former[1] == till and former[2] == ARGV[4] or not (hold or former) then
  return answered(job, now)
end
-- A slot that was held back is not caught up, whether or not a host saw it.
if former then
  local held_to = former[1] and math.min(now, tonumber(former[1]) - 1) or now
  job.newest_skipped = math.max(job.newest_skipped, held_to)
end
if hold then
  redis.call('HSET', job.key, 'hold', cmsgpack.pack(hold))
else
  redis.call('HDEL', job.key, 'hold')
end
job.changed = true
return answered(job, now)
