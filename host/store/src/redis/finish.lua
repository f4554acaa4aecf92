-- finish: records how a run ended.
--
-- Keys: see lib/job.lua.
-- Arguments: 1 job  2 run  3 token  4 bytes that the outcome counts  5 outcome, its kind (s, f or i) in front  6 usage
-- Answers: now, revision, and  done | refused

local name, id, token, outcome, usage = ARGV[1], ARGV[2], ARGV[3], ARGV[5], ARGV[6]
local now = clock()
local job, finals = KEYS[1] .. 'job:' .. name, KEYS[1] .. 'final:' .. name
local found = redis.call('HMGET', job, 'numbers', id)
local numbers, record = found[1], found[2]
-- What is said behind the record; lib/find.lua reads it.
local ending = struct.pack('<I4c0', #outcome, outcome) .. usage
local revision, unfinished, stored = 0, 0, 0
if numbers then
  revision, unfinished, stored = struct.unpack('<ddd', numbers)
end
local flags, current, due = 0, false, 0
if record then
  flags, current, due = struct.unpack('<Bc16d', record, 17)
end
if current ~= token or flags % 2 == 1 then
  -- S13: the same token and outcome again is answered as the first time. The attempt itself must have said so: a run
  -- that the store gave up was not finished by its token, and has no usage.
  -- As on_master of lib/job.lua, which tells why.
  redis.call('HDEL', KEYS[2], '')
  local final = not record and redis.call('HGET', finals, id)
  if final and string.sub(final, 18, 33) == token then
    local _, _, its_outcome, at = struct.unpack('<I4c0I4c0I4c0', final, 102)
    if its_outcome == outcome and at <= #final then
      return { now, revision, 'done' }
    end
  end
  return { now, revision, 'refused' }
end
-- S6: one outcome per run, final.
local more, state_size, kept_size = tonumber(ARGV[4]), struct.unpack('<dd', record, 70)
record = string.sub(record, 1, 69) .. struct.pack('<dddd', -math.huge, kept_size + more, now, now)
  .. string.sub(record, 102) .. ending
-- Deleting comes first: a run can end on a server that is out of memory.
redis.call('HDEL', job, id)
redis.call('HSET', finals, id, record)
redis.call('ZADD', KEYS[1] .. 'due:' .. name, -due, id)
-- S15: a run's checkpoint exists while it is pending or running.
if state_size >= 0 then
  redis.call('HDEL', KEYS[1] .. 'state:' .. name, id)
  -- leasehold_lease::write::ENTRY: bytes that each stored thing counts besides its content.
  more = more - state_size - 64
end
redis.call('HSET', job, 'numbers', struct.pack('<ddd', revision + 1, unfinished - 1, stored + more)
  .. string.sub(numbers, 25))
if unfinished == 1 then
  redis.call('ZREM', KEYS[1] .. 'open', name)
end
if more ~= 0 then
  redis.call('INCRBY', KEYS[1] .. 'stored', more)
end
return { now, revision + 1, 'done' }
