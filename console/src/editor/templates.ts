import policy from '~scaffold/rego/route.rego?raw';
import route from '~scaffold/decision/route.lua?raw';

/** Template is what a new script begins with. */
interface Template {
  id: string;
  engine: 'lua' | 'rego' | 'wasm';
  title: string;
  /** Its comment and its package have the name route, which becomes the name of the script. */
  source: string;
  entrypoint: string;
  config: string;
  library?: boolean;
}

const guard = `-- route: lets a request pass or refuses it.

---@param request Request
---@return Decision?
function handle(request)
  local user = get_request_header("x-user")
  if not user then
    return { allow = false, status = 401, body = "sign in first\\n" }
  end
  log.info("passed", { user = user })
  return { headers = { set = { ["x-seen-by"] = "scriptorium" } } }
end
`;

const library = `-- route: functions for other scripts

local M = {}

function M.starts_with(text, prefix)
  return text:sub(1, #prefix) == prefix
end

return M
`;

export const templates: Template[] = [
  { id: 'route', engine: 'lua', title: 'Lua: choose an upstream', source: route, entrypoint: 'handle', config: '{"routes":[{"prefix":"/api","upstream":"api"}],"default":"web"}' },
  { id: 'guard', engine: 'lua', title: 'Lua: let requests pass, or deny them', source: guard, entrypoint: 'handle', config: '{}' },
  { id: 'library', engine: 'lua', title: 'Lua: a library for other scripts', source: library, entrypoint: '', config: '{}', library: true },
  { id: 'policy', engine: 'rego', title: 'Rego: a policy', source: policy, entrypoint: '', config: '{"admins":["ann"]}' },
  { id: 'module', engine: 'wasm', title: 'WebAssembly: a module from a file', source: '', entrypoint: 'handle', config: '{}' },
];

/** fill returns the source for a script of this name. A package of Rego cannot have a hyphen. */
export const fill = (t: Template, name: string): string =>
  t.source.replace(/^-- route:/, `-- ${name}:`).replace(/^package route$/m, `package ${name.replaceAll('-', '_')}`);
