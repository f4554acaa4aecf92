-- drain: asks hosts of a name to take nothing new, or to go on.
--
-- Keys: see report.lua.
-- Arguments: 1 the name  2 1 to take nothing new, 0 to go on
-- Answers: how many are known

local hosts, known = KEYS[1] .. 'hosts', 0
local flat = redis.call('HGETALL', hosts)
for i = 1, #flat, 2 do
  local record = cmsgpack.unpack(flat[i + 1])
  if record[1] == ARGV[1] then
    record[4] = tonumber(ARGV[2])
    redis.call('HSET', hosts, flat[i], cmsgpack.pack(record))
    known = known + 1
  end
end
return known
