-- claim, its most frequent case: a slot's first claim in a job that nobody holds back, and of which nothing runs or
-- waits.
--
-- It stands in front of claim.lua, which tells the arguments and answers, and does what `fresh` and `win` there do. The
-- other claims fall through it, and only they pay for the functions that they need.

local name, id, token = ARGV[1], ARGV[2], ARGV[3]
local slot, now = tonumber(id), clock()
local not_after, late_after, early_before, lease, max_attempts, bound, flags = struct.unpack('<ddddddB', ARGV[4])
if slot and flags < 2 and now <= not_after and now <= slot + late_after and slot <= now + early_before then
  local job = KEYS[1] .. 'job:' .. name
  local found = redis.call('HMGET', job, 'numbers', 'hold')
  if found[1] and not found[2] then
    local revision, unfinished, stored, newest_started, newest_skipped, last_fence, largest_bound, highest_won =
      struct.unpack('<dddddddd', found[1])
    -- No run stands in the way or has to be settled, and above the highest slot that ever won there is no record.
    if unfinished == 0 and slot > highest_won and slot > newest_started then
      local fence = math.max(last_fence + 1, math.max(slot, 0) * 1024 + 1)
      local record = struct.pack('<ddBc16dI4I4I4dddddd', now + lease, lease, 0, token, slot, 1, 0, 1, fence, now,
        -math.huge, 0, -math.huge, -math.huge) .. ARGV[5]
      local numbers = struct.pack('<dddddddd', revision + 1, 1, stored, slot, newest_skipped, fence,
        math.max(largest_bound, bound), slot)
      redis.call('HSET', job, 'numbers', numbers, id, record)
      redis.call('ZADD', KEYS[1] .. 'open', 0, name)
      return { now, revision + 1, 'won', 1, fence }
    end
  end
end

