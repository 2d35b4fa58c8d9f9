-- want: limit timeout
local s = "[" .. ("1." .. ("0"):rep(15) .. "11102230246251565404236316680908203124999999e-300,"):rep(3000) .. "1]" while true do json.decode(s) end
