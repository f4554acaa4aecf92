-- told: keeps what hosts were told about jobs of one tenant, beside the records and without a revision.
--
-- Keys: see lib/job.lua.
-- Arguments: 1 how many are kept of each job, and from 2 on, two each: job, what a host was told
-- Answers: nothing

local kept = tonumber(ARGV[1])
for i = 2, #ARGV, 2 do
  -- A job that is unknown has nothing to explain.
  if redis.call('EXISTS', KEYS[1] .. 'job:' .. ARGV[i]) == 1 then
    local key = KEYS[1] .. 'told:' .. ARGV[i]
    redis.call('LPUSH', key, ARGV[i + 1])
    redis.call('LTRIM', key, 0, kept - 1)
  end
end
