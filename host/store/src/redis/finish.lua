-- finish: records how a run ended.
--
-- Keys: see lib/job.lua.
-- Arguments: 1 job  2 run  3 token  4 status: success, failed, interrupted  5 how the attempt ended  6 outcome
--   7 bytes that the outcome counts  8 usage
-- Answers: now, revision, and  done | refused

local name, id, token, status, ending, outcome = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local now = clock()
local job = load_with(name, id)
on_master()
local run = job.runs[id]
if not run or run[TOKEN] ~= token or run[RELEASED] then
  -- S13: the same token and outcome again is answered as the first time. The attempt itself must have said so: a run
  -- that the store gave up was not finished by its token.
  local ended = not run and final_run(job, id)
  local again = ended and ended[TOKEN] == token and ended[ATTEMPT_END] == ending
    and ended[STATUS] == status and ended[OUTCOME] == outcome
  return answered(job, now, again and 'done' or 'refused')
end
-- S6: one outcome per run, final.
run[ATTEMPT_ENDED_AT], run[ATTEMPT_END], run[USAGE] = now, ending, ARGV[8]
keep(job, run, tonumber(ARGV[7]))
settle(job, id, run, now, status, outcome)
return answered(job, now, 'done')
