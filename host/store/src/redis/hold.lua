-- hold: holds a job back, or lets it go.
--
-- Keys: see lib/job.lua.
-- Arguments: 1 job  2 hold or let-go  3 until, ms (empty: until it is let go)  4 note
-- Answers: now, revision

local now = clock()
local job = load(ARGV[1])
local former = job.hold
if ARGV[2] == 'let-go' then
  if former then
    redis.call('HDEL', job.key, 'hold')
    job.changed = true
  end
  return answered(job, now)
end
local till = ARGV[3] ~= '' and ARGV[3]
if not former or former[1] ~= till or former[2] ~= ARGV[4] then
  redis.call('HSET', job.key, 'hold', cmsgpack.pack({ till, ARGV[4] }))
  job.changed = true
end
return answered(job, now)
