-- offers: keeps what a host that was heard of offers.
--
-- Keys: see report.lua.
-- Arguments: 1 the host, its name and instance in one  2 what it offers
-- Answers: nothing

if redis.call('HEXISTS', KEYS[1] .. 'hosts', ARGV[1]) == 1 then
  redis.call('HSET', KEYS[1] .. 'hosts-offers', ARGV[1], ARGV[2])
end
