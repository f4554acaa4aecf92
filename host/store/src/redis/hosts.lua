-- hosts: the hosts that were heard of.
--
-- Keys: see report.lua.
-- Answers: now; for each host: what it said, when it was heard of first, when last, 1 where it is to take nothing new

local now = clock()
local found = {}
local flat = redis.call('HGETALL', KEYS[1] .. 'hosts')
for i = 1, #flat, 2 do
  local record = cmsgpack.unpack(flat[i + 1])
  local seen = tonumber(redis.call('ZSCORE', KEYS[1] .. 'hosts-seen', flat[i]))
  found[#found + 1] = { record[2], record[3], seen, record[4] }
end
return { now, found }
