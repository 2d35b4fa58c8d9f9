/** Template is what a new script begins with. */
export interface Template {
  id: string;
  engine: 'lua' | 'rego' | 'wasm';
  title: string;
  /** In it, NAME stands for the name of the script. */
  source: string;
  entrypoint: string;
  config: string;
  library?: boolean;
}

const route = `-- NAME: which service answers this request?

---@param request Request
---@return Decision?
function handle(request)
  local path = request.path or "/"
  for _, route in ipairs(config.routes or {}) do
    if path:sub(1, #route.prefix) == route.prefix then
      return { upstream = route.upstream }
    end
  end
  return { upstream = config.default or "web" }
end
`;

const guard = `-- NAME: lets a request pass or refuses it.

---@param request Request
---@return Decision?
function handle(request)
  local user = get_request_header("x-user")
  if not user then
    return { allow = false, status = 401, body = "sign in first\\n" }
  end
  log.info("passed", { user = user })
  return { headers = { set = { ["x-seen-by"] = "NAME" } } }
end
`;

const library = `-- NAME: functions for other scripts: local NAME = require "NAME"

local M = {}

function M.starts_with(text, prefix)
  return text:sub(1, #prefix) == prefix
end

return M
`;

const policy = `package PACKAGE

default decision := {"allow": false, "status": 403}

decision := {"allow": true} if input.method == "GET"

decision := {"allow": true} if {
	input.method != "GET"
	input.headers["x-user"] in data.config.admins
}
`;

export const templates: Template[] = [
  { id: 'route', engine: 'lua', title: 'Lua: choose an upstream', source: route, entrypoint: 'handle', config: '{"routes":[{"prefix":"/api","upstream":"api"}],"default":"web"}' },
  { id: 'guard', engine: 'lua', title: 'Lua: let requests pass, or deny them', source: guard, entrypoint: 'handle', config: '{}' },
  { id: 'library', engine: 'lua', title: 'Lua: a library for other scripts', source: library, entrypoint: '', config: '{}', library: true },
  { id: 'policy', engine: 'rego', title: 'Rego: a policy', source: policy, entrypoint: '', config: '{"admins":["ann"]}' },
  { id: 'module', engine: 'wasm', title: 'WebAssembly: a module from a file', source: '', entrypoint: 'handle', config: '{}' },
];

export const fill = (t: Template, name: string): string => t.source.replaceAll('PACKAGE', name.replaceAll('-', '_')).replaceAll('NAME', name);
