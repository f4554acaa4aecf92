-- report: a host says that it is there, and learns what was asked of it.
--
-- Keys: KEYS[1] is the prefix `leasehold:{<namespace>}:`, KEYS[2] the key `never`, which does not exist.
--   hosts         hash: host -> what it said, when it was heard of first, whether it was asked to drain
--   hosts-seen    sorted set: host -> when it was heard of last
--   hosts-offers  hash: host -> what it offers
-- Arguments: 1 the host, its name and instance in one  2 its name  3 what it says  4 how long the record of a host that
--   is not heard of is kept, ms
-- Answers: now, 1 where it is to take nothing new, else 0

local hosts, seen, host = KEYS[1] .. 'hosts', KEYS[1] .. 'hosts-seen', ARGV[1]
local now = clock()
local silent = '(' .. string.format('%.0f', now - tonumber(ARGV[4]))
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', seen, '-inf', silent)) do
  redis.call('HDEL', hosts, gone)
  redis.call('HDEL', KEYS[1] .. 'hosts-offers', gone)
  redis.call('ZREM', seen, gone)
end
local known = redis.call('HGET', hosts, host)
local first_seen, drain = now, 0
if known then
  local record = cmsgpack.unpack(known)
  first_seen, drain = record[3], record[4]
end
redis.call('HSET', hosts, host, cmsgpack.pack({ ARGV[2], ARGV[3], first_seen, drain }))
redis.call('ZADD', seen, now, host)
return { now, drain }
