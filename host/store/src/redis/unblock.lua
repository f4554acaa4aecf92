-- unblock: frees a job whose newest started slot lies in what the store's clock, since corrected, calls the future.
--
-- Keys: see lib/job.lua.
-- Arguments: 1 job  2 the newest slot of its schedule that is due
-- Answers: now, revision, and  unblocked | not-blocked | live run

local now = clock()
local job = load(ARGV[1])
local expired, newest_live = {}, nil
for id, run in pairs(job.runs) do
  local slot = tonumber(id)
  if slot and slot > now then
    if not live(run, now) then
      expired[#expired + 1] = id
    elseif not newest_live or before(newest_live, id) then
      newest_live = id
    end
  end
end
if newest_live then
  return answered(job, now, 'live', newest_live)
end
-- A caller whose clock is wrong must not block the job anew.
local newest_due = math.min(tonumber(ARGV[2]), now)

local function ahead(slot)
  return slot > newest_due
end

local since = job.offer and job.offer[1]
local blocked = #expired > 0 or ahead(job.newest_started) or ahead(job.newest_skipped)
if not blocked and not (since and since > now) then
  return answered(job, now, 'not-blocked')
end
for _, id in ipairs(expired) do
  interrupt(job, id, job.runs[id], now, 'its slot lay in the future, and the job was unblocked')
end
-- The fence never falls.
job.newest_started = math.min(job.newest_started, newest_due)
job.newest_skipped = math.min(job.newest_skipped, newest_due)
local offer = job.offer or { false, '', false }
offer[1] = now
redis.call('HSET', job.key, 'offer', cmsgpack.pack(offer))
job.changed = true
return answered(job, now, 'unblocked')
