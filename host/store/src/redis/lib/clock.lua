-- The store's clock: the server's, in whole milliseconds since the Unix epoch.
--
-- It stands in front of every script, and a script calls it once, so that all it does happens at one instant.
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
