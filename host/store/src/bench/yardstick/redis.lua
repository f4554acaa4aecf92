-- The yardstick of Redis and Valkey: what every script of a driver does at least.
--
-- Keys: 1 a hash.
-- Arguments: 1 a value.
-- Answers: the value, read back.

redis.call('TIME')
redis.call('HSET', KEYS[1], 'field', ARGV[1])
return redis.call('HGET', KEYS[1], 'field')
