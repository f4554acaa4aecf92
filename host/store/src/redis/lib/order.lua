-- Whether run `a` sorts before run `b`: slots first, by time; then on-demand runs, by the bytes of their ids. (Lua
-- compares strings by the server's locale.)
local function before(a, b)
  local a_slot, b_slot = tonumber(a), tonumber(b)
  if a_slot and b_slot then
    return a_slot < b_slot
  elseif a_slot or b_slot then
    return a_slot ~= nil
  end
  for i = 2, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end
