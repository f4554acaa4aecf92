-- Isolates records: one that cannot be read does not spoil the others.

-- What `read` answers, or nothing and the reason. What the user may not do is no fault of a record and stays an error.
local function apart(read, ...)
  local sound, answer = pcall(read, ...)
  if sound then
    return answer
  end
  local reason = type(answer) == 'table' and answer.err or tostring(answer)
  if string.find(reason, 'NOPERM', 1, true) or string.find(reason, 'The user executing the script', 1, true) then
    error(answer, 0)
  end
  return { false, reason }
end
