package luajson_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// touch makes every table within v one that the script has looked through.
const touch = `
local function touch(v)
  if type(v) == "table" then for _, m in pairs(v) do touch(m) end end
  return v
end
`

// TestArgumentsAreTables: whatever a script does with an object that came as JSON,
// it cannot tell that members are decoded when they are asked for.
func TestArgumentsAreTables(t *testing.T) {
	e := lua.New()
	const object = `{"a":1,"b":{"c":[1,{"d":2}],"e":"\u00e9"},"n":null,"t":true,"":0,"a b":-1.5e2,"twice":1,"twice":2}`
	for _, body := range []string{
		`return v`,
		`return v.a, v.b.c[2].d, v.b.e, v.n, v.t, v[""], v["a b"], v.twice, v.none, v[1]`,
		`return v.b == v.b, v.b.c == v.b.c, v == v`,
		`v.b.c[2].d = 3 return v`,
		`v.x = 1 return v.x, v.a`,
		`v.a = nil return v`,
		`v.b = nil return v.b == nil, v`,
		`v[1] = "one" return #v, v`,
		`return type(v), #v, getmetatable(v) == nil, tostring(v):sub(1, 6)`,
		`local n = 0 for _ in pairs(v) do n = n + 1 end return n`,
		`local k = {} for name in pairs(v) do k[#k + 1] = name end return k`,
		`return next(v)`,
		`return next({}), next(v.b)`,
		`return rawget(v, "a"), rawget(v, "none")`,
		`rawset(v, "a", 5) return v.a, rawget(v, "a")`,
		`return rawequal(v, v), rawequal(v, v.b)`,
		`setmetatable(v, {__index = function(_, k) return k .. "?" end}) return v.none, v.a`,
		`local w = setmetatable({}, {__index = v}) return w.a, w.b.e, w.none`,
		`local w = setmetatable({}, {__newindex = v}) w.a = 6 return v.a, rawget(w, "a")`,
		`return json.encode(v.b), json.encode(v)`,
		`local b = v.b b.e = nil return json.encode(v)`,
		`return table.concat({v.a, v.twice}, ",")`,
		`return pcall(function() return v .. "" end)`,
		`return pcall(function() return v < v end)`,
		`return pcall(function() return v() end)`,
		`return pcall(function() return v + 1 end)`,
		`return pcall(table.concat, v)`,
		`return pcall(error, v)`,
		`return select(2, pcall(error, v)) == v`,
		`return (("$a $b $none"):gsub("%$(%w+)", {a = v.a})), (("a t"):gsub("%w", v))`,
		`for _, m in ipairs(v.b.c) do if type(m) == "table" then m.seen = true end end return v.b.c`,
		`return unpack(v.b.c)`,
		`local c = v.b.c table.insert(c, v.b.c[2]) return c, #c`,
		`json.array(v.b.c) return v`,
		`return pcall(json.array, v)`,
		`local deep = v for i = 1, 5 do deep = {deep} end return deep`,
		`return json.decode(json.encode(v)).b.c[2]`,
		`return math.max(v.a, v.twice)`,
	} {
		lazy := luatest.Outcome(t, e, touch+`function handle(v) `+body+` end`, `{}`, object)
		eager := luatest.Outcome(t, e, touch+`function handle(v) touch(v) `+body+` end`, `{}`, object)
		if lazy != eager && !sameJSON(lazy, eager) {
			t.Errorf("%s\n= %s, but with all of it decoded %s", body, lazy, eager)
		}
	}
}

// Each level of an argument that is asked for is read again, with all that is in it:
// that is paid for.
func TestLevelsAreCharged(t *testing.T) {
	const levels = 30
	text := strings.Repeat(`{"a":`, levels) + `{"pad":"` + strings.Repeat("x", 200_000) + `"}` + strings.Repeat("}", levels)
	for _, body := range []string{
		`local t = a for i = 1, 30 do t = t.a end return 1`,
		`local t = a for i = 1, 30 do t = select(2, next(t)) end return 1`,
	} {
		inv := &engine.Invocation{Tenant: "acme", Limits: script.Limits{Timeout: luatest.Patient, Instructions: 100_000}}
		if _, err := luatest.Evaluate(t, lua.New(), inv, body, text); script.KindOf(err) != script.Limit {
			t.Errorf("%s: %v, want a Limit", body, err)
		}
		inv.Limits.Instructions = 1_000_000
		if _, err := luatest.Evaluate(t, lua.New(), inv, body, text); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// TestUntouchedJSONComesBackAsWritten: what is passed through is what the encoder
// would write.
func TestUntouchedJSONComesBackAsWritten(t *testing.T) {
	e := lua.New()
	for text, want := range map[string]string{
		`{"a":1,"b":[true,{"c":"x"}]}`:     `{"a":1,"b":[true,{"c":"x"}]}`,
		`{ "a" : [ 1 , 2 ] }`:              `{"a":[1,2]}`,
		`{"a":1,"a":2}`:                    `{"a":2}`,
		`{"x":{"a":1,"a":2}}`:              `{"x":{"a":2}}`,
		`{"a":"\u00e9\/"}`:                 `{"a":"é/"}`,
		`{"\u0061":1}`:                     `{"a":1}`,
		`{"a":-0,"b":1.0,"c":1e2,"d":0.5}`: `{"a":0,"b":1,"c":100,"d":0.5}`,
		`{"a":1234567.5}`:                  `{"a":1.2345675e+06}`,
		`{"a":0.00001}`:                    `{"a":1e-05}`,
		`{"a":12345678901234567890}`:       `{"a":1.2345678901234567e+19}`,
		`{}`:                               `{}`,
		`{"a":{}}`:                         `{"a":{}}`,
	} {
		if got := luatest.Outcome(t, e, `function handle(v) return v end`, `{}`, text); got != want {
			t.Errorf("%s came back as %s, want %s", text, got, want)
		}
	}
}

func TestPassedThroughIsStillBounded(t *testing.T) {
	e := lua.New()
	nested := strings.Repeat(`{"a":`, 31) + `1` + strings.Repeat(`}`, 31)
	if got := luatest.Outcome(t, e, `function handle(v) return v end`, `{}`, nested); got != nested {
		t.Errorf("31 levels: %s", got)
	}
	for name, tt := range map[string]struct{ source, arg string }{
		"nested deeper once wrapped": {`function handle(v) return {{v}} end`, nested},
		"larger than a result":       {`function handle(v) return v end`, `{"a":"` + strings.Repeat("x", 70_000) + `"}`},
		"more values together":       {`function handle(v) return {v, v} end`, `{"a":[` + strings.Repeat("1,", 9_000) + `1]}`},
	} {
		if got := luatest.Outcome(t, e, tt.source, `{}`, tt.arg); !strings.HasPrefix(got, string(script.Limit)) {
			t.Errorf("%s: %.100s, want LIMIT", name, got)
		}
	}
}

// TestMalformedArgumentsAreRefusedUnread: text that is wrong is refused before the
// script runs, however deep it is and whether or not the script would read it.
func TestMalformedArgumentsAreRefusedUnread(t *testing.T) {
	e := lua.New()
	for _, bad := range []string{
		`{"a":{"b":[1,]}}`, `{"a":{"b":tru}}`, `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":01}`, `{"a":1e999}`, `{"a":[1e999]}`, `{"a":"` + "\n" + `"}`,
		`{"a":{"b":1}`, `{"a" 1}`, `{"a":1}}`, `{"a":{"b":1,}}`, `{a:1}`, `{"a":-}`, `{"a":"` + "\xff" + `"}`,
		strings.Repeat(`{"a":`, 33) + `1` + strings.Repeat(`}`, 33), `{"a":[` + strings.Repeat("1,", 16_384) + `1]}`,
		`{"a":` + strings.Repeat("9", 400) + `}`,
	} {
		if got := luatest.Outcome(t, e, `function handle() return 1 end`, `{}`, bad); !strings.HasPrefix(got, string(script.Invalid)) {
			t.Errorf("%.60q: %s, want INVALID", bad, got)
		}
	}
}

// TestRandomDocuments passes documents through scripts that read some of them.
func TestRandomDocuments(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	e := lua.New()
	p, err := e.Compile(engine.Source{Entrypoint: "handle", Code: []byte(`
local function read(v, path)
  for i = 1, #path do
    if type(v) ~= "table" then return nil end
    v = v[path[i]]
  end
  return v
end
function handle(v, path) read(v, path) return v end`)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2_000 {
		doc := randomObject(random, 4)
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		path := `["k1","k2","k3"]`
		if random.IntN(2) == 0 {
			path = fmt.Sprintf(`["k%d",%d,"k%d"]`, random.IntN(5), random.IntN(3), random.IntN(5))
		}
		var res engine.Result
		inv := &engine.Invocation{Tenant: "acme", Args: [][]byte{text, []byte(path)}, Limits: script.MaxLimits()}
		if err := p.Run(t.Context(), inv, &res); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := string(res.Value(0)); !sameJSON(got, string(text)) {
			t.Fatalf("%s came back as %s", text, got)
		}
	}
}

func randomObject(random *rand.Rand, depth int) map[string]any {
	object := map[string]any{}
	for range random.IntN(6) {
		object[fmt.Sprintf("k%d", random.IntN(5))] = randomValue(random, depth-1)
	}
	if random.IntN(20) == 0 { // more than are searched one by one
		for i := range 40 {
			object[fmt.Sprintf("m%d", i)] = i
		}
	}
	return object
}

func randomValue(random *rand.Rand, depth int) any {
	kinds := 5
	if depth > 0 {
		kinds = 7
	}
	switch random.IntN(kinds) {
	case 0:
		return random.IntN(1_000_000)
	case 1:
		return random.NormFloat64() * 1000
	case 2:
		return "text \"with\" \\ escapes\n é"
	case 3:
		return random.IntN(2) == 0
	case 4:
		return "plain"
	case 5:
		return randomObject(random, depth)
	}
	list := make([]any, 1+random.IntN(3))
	for i := range list {
		list[i] = randomValue(random, depth-1)
	}
	return list
}
