package lua_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	scriptError = string(script.Script)
	limit       = string(script.Limit)
	timedOut    = string(script.Timeout)
	fine        = ""
	anyBound    = limit + " " + timedOut
)

// hostile are bodies of functions that try to hang, crash or bloat the process,
// to leave their sandbox, or to leave something behind. Want holds the kinds
// that may come of running one.
var hostile = []struct{ name, body, want string }{
	// Time.
	{"loop", `while true do end`, limit},
	{"for", `for i = 1, 1e9 do end`, limit},
	{"for huge", `for i = 1, math.huge do end`, limit},
	{"for step zero", `for i = 10, 1, 0 do end`, limit},
	{"goto", `::again:: goto again`, limit},
	{"repeat", `repeat until false`, limit},
	{"backtracking", `(("a"):rep(30)):find(("a*"):rep(15).."b")`, limit},
	{"backtracking lazily", `(("a"):rep(30)):find(("a-"):rep(15).."b")`, limit},
	{"backtracking options", `(("a"):rep(28)):match(("a?"):rep(28)..("a"):rep(28).."b")`, limit},
	{"gsub quadratic", `(("a"):rep(250000)):gsub("a*b", "")`, anyBound},
	{"gmatch quadratic", `for w in (("a"):rep(250000)):gmatch("a-b") do end`, anyBound},
	{"balance quadratic", `(("("):rep(250000)):find("%b()")`, anyBound},
	{"back reference", `(("a"):rep(100000)):find("(a*)%1b")`, anyBound},
	{"large set", `(("a"):rep(10000)):find("[" .. ("b"):rep(10000) .. "]")`, anyBound},
	{"plain find", `local s = ("a"):rep(200000) while true do s:find("b", 1, true) end`, anyBound},
	{"string compare", `local a, b = ("a"):rep(200000), ("a"):rep(200000) .. "b" while a < b do end`, anyBound},
	{"string to number", `local s = ("0"):rep(200000) while true do local n = s + 1 end`, anyBound},
	{"tonumber", `local s = ("1"):rep(200000) while true do tonumber(s) end`, anyBound},
	{"upper", `local s = ("a"):rep(200000) while true do s:upper() end`, anyBound},
	{"insert in front", `local t = {} while true do table.insert(t, 1, 1) end`, anyBound},
	{"remove in front", `local t = {} for i = 1, 8000 do t[i] = i end while true do t[8000] = 1 table.remove(t, 1) end`, anyBound},
	{"insert far behind", `table.insert({}, -1e15, 1)`, limit},
	{"concat nothing", `table.concat({}, "x", 1, 1e15)`, scriptError},
	{"concat empty strings", `local t = {} for i = 1, 8000 do t[i] = "" end while true do table.concat(t) end`, anyBound},
	{"sort forever", `local t = {} for i = 1, 5000 do t[i] = i end while true do table.sort(t) end`, anyBound},
	{"sort liar", `local t = {} for i = 1, 2000 do t[i] = i end table.sort(t, function() return true end)`, fine},
	{"sort doubter", `local t = {} for i = 1, 2000 do t[i] = i end table.sort(t, function() return math.random() < 0.5 end)`, fine},
	{"sort grower", `local t = {3, 2, 1} table.sort(t, function(a, b) t[#t + 1] = 1 return a < b end)`, fine},
	{"sort mixed", `table.sort({1, "a", {}})`, scriptError},
	{"sort native", `local t = {} for i = 1, 8000 do t[i] = i end while true do table.sort(t, rawequal) end`, anyBound},
	{"pcall tree", `local function f() pcall(f) pcall(f) end f()`, anyBound},
	{"pcall of pcall", `while true do pcall(pcall, pcall, pcall, error) end`, anyBound},
	{"pcall swallowing", `while true do pcall(function() while true do end end) end`, limit},
	{"xpcall handler fails", `while true do xpcall(function() error("a") end, function() error("b") end) end`, scriptError},
	{"xpcall handler loops", `xpcall(function() while true do end end, function() while true do end end)`, limit},
	{"xpcall into xpcall", `local function f() xpcall(f, f) end f()`, anyBound},
	{"next", `local t = {} for i = 1, 20000 do t["k" .. i] = i end for i = 1, 20000 do t["k" .. i] = nil end while true do next(t) end`, anyBound},
	{"next bad key", `local t, k = {a = 1, b = 2} repeat k = next(t, "nokey") until false`, limit},
	{"maxn", `local t = {} for i = 1, 10000 do t[-i] = i end while true do table.maxn(t) end`, anyBound},
	{"unpack", `local t = {} while true do unpack(t, 1, 7999) end`, anyBound},
	{"byte", `local s = ("a"):rep(7999) while true do s:byte(1, -1) end`, anyBound},
	{"date", `local f = ("%c"):rep(5000) while true do os.date(f) end`, anyBound},
	{"json encode", `local t = {} for i = 1, 8000 do t[i] = i end while true do json.encode(t) end`, anyBound},
	{"json decode", `local s = "[" .. ("1,"):rep(8000) .. "1]" while true do json.decode(s) end`, anyBound},
	{"error traces", `local function f(n) if n == 0 then error("x") end f(n - 1) end while true do pcall(f, 200) end`, anyBound},

	// Memory.
	{"rep", `("a"):rep(1e10)`, limit},
	{"rep infinite", `("a"):rep(math.huge)`, limit},
	{"rep of nothing", `(""):rep(1e15)`, fine},
	{"rep separator", `(""):rep(1e10, "xxxxxxxx")`, limit},
	{"rep NaN", `("a"):rep(0/0)`, fine},
	{"doubling", `local s = "a" while true do s = s .. s end`, limit},
	{"doubling by format", `local s = "a" while true do s = ("%s%s"):format(s, s) end`, limit},
	{"doubling by gsub", `local s = "a" while true do s = s:gsub(".", "%0%0") end`, limit},
	{"doubling by table", `local s = "a" while true do s = table.concat({s, s}) end`, limit},
	{"doubling by json", `local s = '"' while true do s = json.encode(s) end`, limit},
	{"format width", `("%99999999d"):format(1)`, scriptError},
	{"format precision", `("%.99999999f"):format(1)`, scriptError},
	{"gsub callback", `(("a"):rep(10000)):gsub("a", function() return ("b"):rep(10000) end)`, limit},
	{"gsub table", `(("a"):rep(10000)):gsub("a", {a = ("b"):rep(10000)})`, limit},
	{"concat separator", `local t = {} for i = 1, 8000 do t[i] = 1 end table.concat(t, ("x"):rep(1000))`, limit},
	{"date expands", `os.date(("%c"):rep(100000))`, limit},
	{"high index", `local t = {} t[67108863] = 1 return #t`, fine},
	{"high indices", `local ts = {} for i = 1, 1e9 do local t = {} t[8191] = 1 ts[i] = t end`, anyBound},
	{"many tables", `local ts = {} for i = 1, 1e9 do ts[i] = {x = {}} end`, anyBound},
	{"many keys", `local t = {} for i = 1, 1e9 do t[i + 0.5] = i end`, anyBound},
	{"many closures", `local t = {} for i = 1, 1e9 do t[i] = function() return i end end`, anyBound},
	{"many strings", `local t = {} for i = 1, 1e9 do t[i] = ("x"):rep(200000) .. i end`, anyBound},
	{"unpack much", `return select("#", unpack({}, 1, 1e8))`, scriptError},
	{"unpack beyond", `unpack({}, -1e308, 1e308)`, scriptError},
	{"byte much", `(("x"):rep(200000)):byte(1, -1)`, scriptError},
	{"varargs grow", `local function f(...) return f(1, 2, 3, ...) end f()`, anyBound},
	{"varargs double", `local function f(...) local a = {...} return f(unpack(a), unpack(a)) end f(1)`, anyBound},
	{"varargs copied", `local function f(...) return f(...) end f(unpack({}, 1, 7999))`, anyBound},
	{"arg table", `local function f(...) return arg end for i = 1, 1e9 do f(unpack({}, 1, 7999)) end`, anyBound},

	// Depth.
	{"recursion", `local function f() f() end f()`, limit},
	{"tail recursion", `local function f() return f() end f()`, limit},
	{"tail recursion then error", `local function f(n) if n == 0 then error("x") end return f(n - 1) end f(100000)`, limit},
	{"index recursion", `local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end return t.x`, limit},
	{"newindex recursion", `local t = setmetatable({}, {}) getmetatable(t).__newindex = function(t, k, v) t[k] = v end t.x = 1`, limit},
	{"index cycle", `local t = {} setmetatable(t, {__index = t}) return t.x`, scriptError},
	{"tostring recursion", `local t = setmetatable({}, {__tostring = function(t) return tostring(t) end}) tostring(t)`, limit},
	{"format recursion", `local t = setmetatable({}, {__tostring = function(t) return ("%s"):format(t) end}) tostring(t)`, limit},
	{"eq recursion", `local m = {} m.__eq = function(a, b) return a == b end return setmetatable({}, m) == setmetatable({}, m)`, limit},
	{"lt recursion", `local m = {} m.__lt = function(a, b) return a < b end return setmetatable({}, m) < setmetatable({}, m)`, limit},
	{"le recursion", `local m = {} m.__le = function(a, b) return a <= b end return setmetatable({}, m) <= setmetatable({}, m)`, limit},
	{"concat recursion", `local m = {} m.__concat = function(a, b) return a .. b end return setmetatable({}, m) .. "x"`, limit},
	{"len recursion", `local m = {} m.__len = function(a) return #a end return #setmetatable({}, m)`, limit},
	{"add recursion", `local m = {} m.__add = function(a, b) return a + b end return setmetatable({}, m) + 1`, limit},
	{"unm recursion", `local m = {} m.__unm = function(a) return -a end return -setmetatable({}, m)`, limit},
	{"call recursion", `local m = {} m.__call = function(a) return a() end return setmetatable({}, m)()`, limit},
	{"sort recursion", `local function f() table.sort({1, 2}, f) end f()`, limit},
	{"gsub recursion", `local function f() ("a"):gsub("a", f) end f()`, limit},
	{"iterator recursion", `local function f() for x in f do end end f()`, limit},
	{"call of table", `local t = {} setmetatable(t, {__call = t}) t()`, scriptError},
	{"captures", `("x"):find(("("):rep(100000))`, scriptError},
	{"capture pairs", `("x"):find(("()"):rep(100000))`, scriptError},
	{"repetitions", `(("a"):rep(1000)):find(("a*"):rep(1000))`, limit},
	{"options", `(("a"):rep(1000)):find(("a?"):rep(1000))`, limit},
	{"percent", `("a"):gsub("a", ("%"):rep(100001))`, scriptError},
	{"percents", `("a"):gsub("a", ("%"):rep(100000))`, fine},
	{"open set", `("a"):find(("["):rep(100000))`, scriptError},
	{"json nesting", `json.decode(("["):rep(100000))`, scriptError},
	{"json cycle", `local t = {} t[1] = t json.encode(t)`, limit},
	{"json fan", `local t = {} for i = 1, 30 do t = {t, t} end json.encode(t)`, limit},

	// Escapes and traces.
	{"string metatable", `getmetatable("").__index = {}`, scriptError},
	{"string library", `string.format = function() return "evil" end`, scriptError},
	{"string library raw", `rawset(string, "format", 1)`, scriptError},
	{"string library insert", `table.insert(string, 1)`, scriptError},
	{"string library metatable", `setmetatable(string, {})`, scriptError},
	{"library of libraries", `for _, lib in pairs({string, table, math, os, json}) do lib.evil = 1 end`, scriptError},
	{"globals' metatable", `setmetatable(_G, {})`, scriptError},
	{"globals' base", `getmetatable(_G).__index.tostring = 1`, scriptError},
	{"null", `json.null.x = 1`, scriptError},
	{"null metatable", `setmetatable(json.null, {})`, scriptError},
	{"array marker", `getmetatable(json.array()).x = 1`, scriptError},
	{"absent", `assert(not (getfenv or setfenv or load or loadstring or loadfile or dofile or require or module))`, fine},
	{"absent, too", `assert(not (newproxy or io or debug or channel or _printregs or collectgarbage or print or coroutine or package))`, fine},
	{"os", `assert(not (os.execute or os.exit or os.getenv or os.remove or os.rename or os.tmpname or os.setlocale))`, fine},
	{"dump", `assert(not string.dump)`, fine},

	// Errors.
	{"error nil", `error()`, scriptError},
	{"error table", `error({})`, scriptError},
	{"error table looping", `error(setmetatable({}, {__tostring = function() while true do end end, __index = function() while true do end end}))`, scriptError},
	{"error huge", `error(("x"):rep(200000))`, scriptError},
	{"error huge in table", `error({message = ("x"):rep(200000)})`, scriptError},
	{"error not UTF-8", `error("\255\254")`, scriptError},
	{"error huge key", `local t local x = t[("x"):rep(200000)]`, scriptError},
	{"error growing", `local s = ("x"):rep(262144) while true do local _, e = pcall(function() local t local x = t[s] end) s = e end`, anyBound},
	{"error function", `error(error)`, scriptError},
	{"assert huge", `assert(false, ("x"):rep(200000))`, scriptError},
	{"level huge", `error("x", 1e15)`, scriptError},
	{"index NaN", `local t = {} t[0/0] = 1`, scriptError},
	{"rawset NaN", `rawset({}, 0/0, 1)`, scriptError},
	{"rawset nil", `rawset({}, nil, 1)`, scriptError},
	{"select", `select(-5, 1)`, scriptError},
	{"random", `math.random(0)`, scriptError},
	{"random huge", `return tostring(math.random(-1e308, 1e308))`, fine},
	{"date far", `return os.date("%c", 1e300), os.date("*t", -1e300), os.time({year = 1e300, month = -1e300, day = 0/0})`, fine},
	{"strange positions", `return ("abc"):sub(0/0, math.huge), ("abc"):byte(-1e300, 1e300), ("abc"):find("b", -1e300)`, fine},
}

// settings put a hostile body where it runs. In exact ones it ends as in plain.
var settings = []struct {
	name, source string
	exact        bool
}{
	{"plain", `function handle() %s end`, true},
	{"load", `(function() %s end)() function handle() end`, true},
	{"pcall", `function handle() return (pcall(function() %s end)) end`, false},
	{"pcall for ever", `function handle() while true do pcall(function() %s end) end end`, false},
	{"xpcall", `function handle() return (xpcall(function() %s end, tostring)) end`, false},
	{"metamethod", `function handle() return setmetatable({}, {__index = function() %s end}).x end`, false},
	{"comparator", `function handle() table.sort({1, 2, 3}, function() %s end) end`, false},
	{"gsub callback", `function handle() ("abc"):gsub(".", function() %s end) end`, false},
	{"iterator", `function handle() for x in function() %s end do end end`, false},
	{"returned", `function handle() return setmetatable({}, {__index = function() %s end, __tostring = function() %[1]s end, __len = 1}) end`, false},
}

func TestHostile(t *testing.T) {
	e := lua.New()
	benign := compile(t, e, typicalSource)
	for _, h := range hostile {
		t.Run(h.name, func(t *testing.T) {
			for _, setting := range settings {
				source := fmt.Sprintf(setting.source, h.body)
				p, err := e.Compile(engine.Source{Code: []byte(source), Entrypoint: "handle"})
				if err != nil {
					t.Fatalf("%v\n%s", err, source)
				}
				_, err = runUnder(t, hostileLimits(h.want, setting.exact), p, "mallory")
				if setting.exact {
					if kind := string(script.KindOf(err)); !strings.Contains(h.want, kind) || (h.want != "") != (kind != "") {
						t.Errorf("%s: error = %v (%s), want %q", setting.name, err, kind, h.want)
					}
				}
				wantPresentable(t, err)
				if got, err := run(t, benign, "acme", string(typicalArgument)); err != nil || !strings.HasPrefix(got, `{"upstream":"canary"`) {
					t.Fatalf("after %s: %q, %v", setting.name, got, err)
				}
				if got, err := run(t, benign, "mallory", string(typicalArgument)); err != nil || !strings.HasPrefix(got, `{"upstream":"canary"`) {
					t.Fatalf("after %s: %q, %v", setting.name, got, err)
				}
			}
		})
	}
}

// hostileLimits are low enough to end soon, and high enough for want to happen.
func hostileLimits(want string, exact bool) script.Limits {
	limits := script.Limits{Timeout: patient, Instructions: 100_000}
	if exact && !strings.Contains(want, limit) {
		limits.Instructions = 0 // the default
	}
	if want == anyBound {
		limits.Timeout = impatient
	}
	return limits
}

// wantPresentable fails if a stranger's error tells of Go, or is too long.
func wantPresentable(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	e := script.AsError(err)
	if len(e.Message) > 1100 {
		t.Errorf("message of %d bytes", len(e.Message))
	}
	for _, leak := range []string{"goroutine", "runtime error", ".go:", "traceback", "[G]", "<string>", "0xc0", "fault of the engine"} {
		if strings.Contains(e.Message, leak) {
			t.Errorf("message tells %q: %s", leak, e.Message)
		}
	}
}

func compile(t *testing.T, e engine.Engine, source string) engine.Program {
	t.Helper()
	p, err := e.Compile(engine.Source{Code: []byte(source), Entrypoint: "handle"})
	if err != nil {
		t.Fatalf("%v\n%s", err, source)
	}
	return p
}

// run calls p and returns its results, one a line.
func run(t *testing.T, p engine.Program, tenant string, args ...string) (string, error) {
	t.Helper()
	return runUnder(t, script.Limits{Timeout: patient}, p, tenant, args...)
}

const (
	patient   = 10 * time.Second      // no call of a test needs as long, on a busy machine either
	impatient = 50 * time.Millisecond // for calls that would go on for ever
)

// runUnder is run with limits. A call that does not come back at all fails the
// test.
func runUnder(t *testing.T, limits script.Limits, p engine.Program, tenant string, args ...string) (string, error) {
	t.Helper()
	inv := &engine.Invocation{Tenant: tenant, Limits: limits}
	for _, arg := range args {
		inv.Args = append(inv.Args, []byte(arg))
	}
	var res engine.Result
	ended := make(chan error, 1)
	go func() { ended <- p.Run(t.Context(), inv, &res) }()
	select {
	case err := <-ended:
		lines := make([]string, res.Len())
		for i := range lines {
			lines[i] = string(res.Value(i))
		}
		return strings.Join(lines, "\n"), err
	case <-time.After(time.Minute):
		t.Fatal("the call does not end")
		return "", nil
	}
}
