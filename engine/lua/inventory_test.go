package lua

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

// inventorySource returns whatever a script can reach from the names it is given:
// "name", "name.member", "string:method", and "metatable of what".
const inventorySource = `
function handle(names)
  local found, co = {}, coroutine.create(function() end)
  local function note(name) found[#found + 1] = name end
  local function look(name, v)
    note(name)
    local ok, meta = pcall(getmetatable, v)
    if not ok or meta then note("metatable of " .. name) end
  end
  for _, name in ipairs(names) do
    local v = _G[name]
    if v ~= nil then
      look(name, v)
      if type(v) == "table" and v ~= _G and v ~= config then
        for k, member in pairs(v) do look(name .. "." .. tostring(k), member) end
        for _, k in ipairs(names) do
          local ok, member = pcall(function() return v[k] end)
          if ok and member ~= nil and not rawequal(member, nil) then note(name .. "." .. k) end
        end
      end
    end
    local ok, method = pcall(function() return ("")[name] end)
    if ok and method ~= nil then note("string:" .. name) end
    for what, v in pairs({number = 1, boolean = true, ["function"] = look, null = json.null, coroutine = co}) do
      local ok, member = pcall(function() return v[name] end)
      if ok and member ~= nil then note(what .. ":" .. name) end
    end
  end
  look("a string", "")
  look("a number", 1)
  look("a boolean", true)
  look("nil", nil)
  look("a function", look)
  look("a table", {})
  look("an array", json.array())
  look("an argument", names)
  look("an object", json.decode("{}"))
  look("a coroutine", co)
  local _, err = pcall(error, "x")
  look("an error", err)
  _, err = pcall(string.rep, "x", 1e10)
  look("an error of the engine", err)
  for k, v in pairs(_G) do if type(k) ~= "string" or k == "found" then note("_G has " .. tostring(k)) end end
  return table.concat(found, "\n")
end`

// otherNames are names that Lua, its relatives and gopher-lua have for what must not
// be within reach, and places where libraries keep such things.
const otherNames = `
_ENV _LOADED _PRELOAD _printregs arg bit bit32 channel collectgarbage debug dofile ffi gcinfo getfenv goto io jit
load loadfile loadlib loadstring loaders loaded module newproxy package path cpath preload print rawlen searchers seeall
setfenv socket string.dump table.foreach thread userdata utf8 warn xpack
close dump execute exit foreach foreachi getenv getinfo getlocal getmetatable getregistry getupvalue gfind input
isyieldable lines move open output pack packsize popen read remove rename sethook setlocal setlocale setmetatable
setupvalue setmx tmpfile tmpname traceback unpack upvalueid wrap write
__add __call __close __concat __div __env __eq __gc __index __le __len __lt __metatable __mod __mode __mul __name
__newindex __pairs __pow __sub __tostring __unm 1 handle found names`

// TestInventory looks around from inside a script, for every name that there is in the
// sandbox and more, and compares what it finds with what was reviewed.
func TestInventory(t *testing.T) {
	names := strings.Fields(otherNames)
	var collect func(members *vm.LTable)
	collect = func(members *vm.LTable) {
		members.ForEach(func(k, v vm.LValue) {
			names = append(names, k.String())
			if ud, ok := v.(*vm.LUserData); ok {
				if lib, ok := ud.Value.(values.Library); ok {
					collect(lib.Members)
				}
			}
			if _, ok := v.(*vm.LTable); ok {
				t.Errorf("%s is a table, which a script can change", k)
			}
		})
	}
	collect(sandbox().base)
	names = append(names, "_G", "config")
	slices.Sort(names)
	names = slices.Compact(names)

	found := lookAround(t, names)
	reviewed := readReviewed(t)
	for _, name := range found {
		method, isMethod := strings.CutPrefix(name, "string:")
		switch {
		case reviewed[name]:
		case isMethod && reviewed["string."+method]: // strings have the library's members as methods
		case strings.HasPrefix(name, "a ") || strings.HasPrefix(name, "an ") || name == "nil" || name == "handle": // what it looked at
		default:
			t.Errorf("%s is within reach and not reviewed: see testdata/reviewed.txt", name)
		}
	}
	for name := range reviewed {
		if !slices.Contains(found, name) {
			t.Errorf("%s was reviewed and is not there", name)
		}
	}
}

// lookAround runs inventorySource.
func lookAround(t *testing.T, names []string) []string {
	t.Helper()
	p, err := New().Compile(engine.Source{Code: []byte(inventorySource), Entrypoint: "handle"})
	if err != nil {
		t.Fatal(err)
	}
	arg, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	limits := script.MaxLimits()
	inv := &engine.Invocation{Tenant: "acme", Args: [][]byte{arg}, Limits: limits}
	var res engine.Result
	if err := p.Run(t.Context(), inv, &res); err != nil {
		t.Fatal(err)
	}
	var text string
	if err := json.Unmarshal(res.Value(0), &text); err != nil {
		t.Fatal(err)
	}
	found := strings.Split(text, "\n")
	slices.Sort(found)
	return slices.Compact(found)
}

// readReviewed returns the names in testdata/reviewed.txt.
func readReviewed(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("testdata/reviewed.txt")
	if err != nil {
		t.Fatal(err)
	}
	reviewed := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		names, answer, ok := strings.Cut(line, ": ")
		if !ok || answer == "" {
			t.Errorf("%q does not say what it costs", line)
		}
		for name := range strings.FieldsSeq(names) {
			if reviewed[name] {
				t.Errorf("%s is there twice", name)
			}
			reviewed[name] = true
		}
	}
	return reviewed
}

// TestProtected makes sure that what states share cannot be reached for writing.
func TestProtected(t *testing.T) {
	b := sandbox()
	metas := []vm.LValue{b.env.Metatable, b.without.Metatable, b.stringMeta, values.Null.Metatable}
	b.base.ForEach(func(_, v vm.LValue) {
		if ud, ok := v.(*vm.LUserData); ok {
			metas = append(metas, ud.Metatable)
		}
	})
	for _, meta := range metas {
		if meta.(*vm.LTable).RawGetString("__metatable") != vm.LFalse {
			t.Errorf("metatable %v is not protected", meta)
		}
	}
}
