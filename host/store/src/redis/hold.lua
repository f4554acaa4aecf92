-- hold: holds a job back, or lets it go: then the hold ends now, and is remembered, for its slots are not caught up.
--
-- Keys: see lib/job.lua.
-- Arguments: 1 job  2 hold or let-go  3 until, ms (empty: until it is let go)  4 note  5 since, ms (empty: not known)
-- Answers: now, revision

local now = clock()
local job = load(ARGV[1])
local former = job.hold
local hold
if ARGV[2] == 'hold' then
  hold = { ARGV[3] ~= '' and ARGV[3], ARGV[4], ARGV[5] ~= '' and ARGV[5] }
elseif former and holds(former, now) then
  hold = { string.format('%.0f', now), former[2], former[3] }
end
if not hold or former and former[1] == hold[1] and former[2] == hold[2] and former[3] == hold[3] then
  return answered(job, now)
end
redis.call('HSET', job.key, 'hold', cmsgpack.pack(hold))
job.changed = true
return answered(job, now)
