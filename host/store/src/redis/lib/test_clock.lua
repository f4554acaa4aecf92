-- The store's clock in tests: an instant that the test sets, in whole milliseconds since the Unix epoch.
--
-- Keys: leasehold:{<namespace>}:clock, found by the namespace in KEYS[1]. It lies in a slot of its own, so this clock
-- serves a single server and no cluster.
local function clock()
  local namespace = string.match(KEYS[1], '^leasehold:{([^/}]+)')
  return tonumber(redis.call('GET', 'leasehold:{' .. namespace .. '}:clock'))
end
