-- want: fine
-- as: program
local error, pcall, tostring, string = nil
local _ENV = {}
function handle() _ENV.x = 1 return error == nil end
