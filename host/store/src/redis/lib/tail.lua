-- The tail of a record: what its newest attempt's claim said of it, and what else no rule looks at often.
--
-- Two texts, each with its length in four bytes before it; the second is packed, and empty where all of it is missing.

local function read_tail(run)
  local meta, extra = struct.unpack('<I4c0I4c0', run.tail)
  extra = extra == '' and {} or cmsgpack.unpack(extra)
  return {
    -- Runner, plugin and policy.
    meta = meta,
    -- The newest write of each lane: its number, 20 digits, and its answer.
    last_write = extra[1] or false,
    write_answer = extra[2] or false,
    last_log = extra[3] or false,
    log_answer = extra[4] or false,
    -- How the newest attempt ended, and what it used, where that is not in the run's end.
    attempt_end = extra[5] or false,
    usage = extra[6] or false,
    -- Who asked for the run to be cancelled, and why.
    reason = extra[7] or false,
    progress = extra[8] or false,
  }
end

local function keep_tail(run, tail)
  local extra = cmsgpack.pack({
    tail.last_write, tail.write_answer, tail.last_log, tail.log_answer, tail.attempt_end, tail.usage, tail.reason,
    tail.progress,
  })
  run.tail = struct.pack('<I4c0I4c0', #tail.meta, tail.meta, #extra, extra)
end
