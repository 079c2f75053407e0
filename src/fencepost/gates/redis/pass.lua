-- Lifts marks and carries out a payload, both or neither, if the marks are still what the caller has compared.
-- KEYS: the hash of marks, then what the payload touches.
-- ARGV: 'raise' or 'write', how many marks, their fields, what is expected of each, what each becomes, the payload's own.
-- Fences are compared by the caller, since numbers are doubles here and lose the last digits of a great fence.
local function payload(KEYS, ARGV)
--PAYLOAD--
end

local marks, many = KEYS[1], tonumber(ARGV[2])
if ARGV[1] == 'write' and redis.call('EXISTS', marks) == 0 then
  return {'forgotten'}
end
for i = 1, many do
  local now = redis.call('HGET', marks, ARGV[2 + i]) or ''
  if now ~= ARGV[2 + many + i] then
    return {'moved'}
  end
end
for i = 1, many do
  local becomes = ARGV[2 + 2 * many + i]
  if becomes == '' then
    redis.call('HDEL', marks, ARGV[2 + i])
  elseif becomes ~= ARGV[2 + many + i] then
    redis.call('HSET', marks, ARGV[2 + i], becomes)
  end
end
local keys, words = {}, {}
for i = 2, #KEYS do keys[#keys + 1] = KEYS[i] end
for i = 3 + 3 * many, #ARGV do words[#words + 1] = ARGV[i] end
return {'passed', payload(keys, words)}
