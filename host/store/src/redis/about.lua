-- about: who this store is, and in which layout it keeps its records. Made when it is first used.
--
-- Keys: KEYS[1] is the prefix `leasehold:{<namespace>}:`, KEYS[2] the key `never`.
--   about  hash: layout, id, secret
--   never  does not exist
-- Arguments: 1 the layout that this host knows  2 a new id  3 a new secret, 32 bytes
-- Answers: layout, id, secret

-- A replica is found out here, before anything is asked of it: this changes nothing, and fails there. And a user who may
-- not touch one of the types that scripts use is found out too, before a script stops half-way for it.
redis.call('HDEL', KEYS[2], '')
redis.call('ZADD', KEYS[2], 'XX', 0, '')
redis.call('SREM', KEYS[2], '')
redis.call('LTRIM', KEYS[2], 0, 0)
redis.call('SETRANGE', KEYS[2], 0, '')
local key = KEYS[1] .. 'about'
local found = redis.call('HMGET', key, 'layout', 'id', 'secret')
if not found[1] then
  redis.call('HSET', key, 'layout', ARGV[1], 'id', ARGV[2], 'secret', ARGV[3])
  return { ARGV[1], ARGV[2], ARGV[3] }
end
return found
