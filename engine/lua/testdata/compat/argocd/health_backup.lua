local os = require("os")

function parse(stamp)
  local year, month, day, hour, min, sec = string.match(stamp, "(%d+)-(%d+)-(%d+)T(%d+):(%d+):(%d+)Z")
  return os.time({ year = year, month = month, day = day, hour = hour, min = min, sec = sec })
end

hs = {}
if obj.status == nil or obj.status.lastBackup == nil then
  hs.status = "Progressing"
  hs.message = "There is no backup"
  return hs
end

age = os.difftime(parse(obj.status.now), parse(obj.status.lastBackup))
if age > 24 * 60 * 60 then
  hs.status = "Degraded"
else
  hs.status = "Healthy"
end
hs.message = "The last backup is " .. math.floor(age / 3600) .. " hours old, of " .. os.date("!%A", parse(obj.status.lastBackup))
return hs
