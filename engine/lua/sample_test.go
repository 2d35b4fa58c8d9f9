package lua_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/profile"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	syntax "github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// samples are instructions by stack, "3:5 < 9:10" for line 5 in the function of line 3, which line 10 in
// that of line 9 has called.
type samples struct {
	mu    sync.Mutex
	of    map[string]uint64
	depth int // of the deepest
}

func (s *samples) Sample(stack []engine.Frame, instructions uint64) {
	at := make([]string, len(stack))
	for i, f := range stack {
		at[i] = f.Builtin
		if f.Builtin == "" {
			at[i] = fmt.Sprintf("%d:%d", f.Function, f.Line)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]uint64{}
	}
	s.of[strings.Join(at, " < ")] += instructions
	s.depth = max(s.depth, len(stack))
}

func (s *samples) total() (n uint64) {
	for _, of := range s.of {
		n += of
	}
	return n
}

// profiled calls the source so often, and returns the samples and the instructions that were used.
func profiled(t *testing.T, source, entrypoint string, calls int, limits script.Limits) (*samples, uint64) {
	t.Helper()
	p, err := lua.New().Compile(engine.Source{Code: []byte(source), Entrypoint: entrypoint})
	if err != nil {
		t.Fatal(err)
	}
	limits.Timeout = luatest.Patient
	s, all := &samples{}, uint64(0)
	for range calls {
		var res engine.Result
		var used engine.Used
		if err := p.Run(t.Context(), &engine.Invocation{Tenant: "acme", Limits: limits, Profile: s, Used: &used}, &res); err != nil {
			t.Fatal(err)
		}
		all += used.Instructions
	}
	return s, all
}

const hot = `local function sum(n)
  local s = 0
  for i = 1, n do
    s = s + i * 2
  end
  return s
end

function handle()
  local a = sum(20000)
  local b = a + 1
  return b
end`

// TestSamplesFindTheHotLine, and stand for about what calls used.
func TestSamplesFindTheHotLine(t *testing.T) {
	s, used := profiled(t, hot, "handle", 20, script.Limits{})
	if got := s.total(); got < used*9/10 || got > used*11/10 {
		t.Errorf("the samples stand for %d instructions, the calls used %d", got, used)
	}
	inLoop := s.of["1:3 < 9:10"] + s.of["1:4 < 9:10"]
	if inLoop < used*9/10 {
		t.Errorf("%d of %d instructions are in the loop: %v", inLoop, used, s.of)
	}
}

// TestShortCallsAreSampled as often as long ones, also those that are over before a sample would be due.
func TestShortCallsAreSampled(t *testing.T) {
	source := strings.Replace(hot, "20000", "10", 1)
	s, used := profiled(t, source, "handle", 20_000, script.Limits{})
	if got := s.total(); got < used*8/10 || got > used*12/10 {
		t.Errorf("the samples stand for %d instructions, the calls used %d: %v", got, used, s.of)
	}
}

// TestAProfileChangesNoBudget: a call ends where it would without one.
func TestAProfileChangesNoBudget(t *testing.T) {
	p := compiled(t, `while true do end`)
	for _, budget := range []uint64{1, 500, 1009, 1010, 77_777} {
		for _, profile := range []engine.Profiler{nil, &samples{}} {
			var used engine.Used
			var res engine.Result
			err := p.Run(t.Context(), &engine.Invocation{Tenant: "acme", Limits: script.Limits{Instructions: budget, Timeout: luatest.Patient}, Profile: profile, Used: &used}, &res)
			if script.KindOf(err) != script.Limit || used.Instructions != budget {
				t.Errorf("profile %v: %v after %d instructions, want LIMIT after %d", profile != nil, err, used.Instructions, budget)
			}
		}
	}
}

// TestStacksOfSamples: builtins, coroutines, callbacks and deep recursion are in them.
func TestStacksOfSamples(t *testing.T) {
	for name, tt := range map[string]struct {
		source string
		has    string // at the beginning of the stack with most instructions
		depth  int
	}{
		"a builtin": {`local s = ("ab"):rep(10000)
for i = 1, 50 do
  s:find("c.*d")
end`, "string.find < 0:3", 2},
		"a coroutine": {`local co = coroutine.wrap(function()
  for i = 1, 100000 do end
end)
co()`, "1:2 < ", 3},
		"a callback": {`local t = {}
for i = 1, 3000 do t[i] = (i * 7919) % 3001 end
table.sort(t, function(a, b)
  for i = 1, 10 do end
  return a < b
end)`, "3:4 < table.sort < 0:3", 3},
		"recursion": {`local function down(n)
  if n == 0 then
    for i = 1, 100000 do end
    return 0
  end
  return down(n - 1) + 1
end
down(100)`, "1:3 < 1:6 < 1:6", engine.MaxProfileDepth},
		"an operator": {`local big = ("x"):rep(100000)
for i = 1, 500 do
  local s = big .. i
end`, ".. < 0:3", 2},
	} {
		s, _ := profiled(t, tt.source, "", 1, script.MaxLimits())
		most := slices.MaxFunc(slices.Collect(maps.Keys(s.of)), func(a, b string) int { return int(s.of[a]) - int(s.of[b]) })
		if !strings.HasPrefix(most, tt.has) || s.depth != tt.depth {
			t.Errorf("%s: most are at %s, the deepest has %d functions; want %s and %d: %v", name, most, s.depth, tt.has, tt.depth, s.of)
		}
		if tt.depth == engine.MaxProfileDepth && !strings.HasSuffix(most, engine.Deeper) {
			t.Errorf("%s: %s does not say that there is more", name, most)
		}
	}
}

func TestFunctionNames(t *testing.T) {
	names := syntax.FunctionNames([]byte(`local function one() end
function two.three:four(a)
end
local five = function() end
six.seven = function() end
table.sort(t, function(a, b) return a < b end)
local t = {
  eight = function() end,
  ["nine"] = function() end,
}
local a, b = function() end, function() end
function ten
  ()
end
-- function comment() end
local s = "function text() end"`))
	want := map[int]string{1: "one", 2: "two.three:four", 4: "five", 5: "six.seven", 6: "function", 8: "eight", 9: "function", 11: "functions", 13: "ten"}
	if !maps.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

// BenchmarkProfiled is BenchmarkInstruction in a call that is profiled as an agent does.
func BenchmarkProfiled(b *testing.B) {
	p, err := lua.New().Compile(engine.Source{Code: []byte(`local s = 0 for i = 1, 100000 do s = s + i end return s`)})
	if err != nil {
		b.Fatal(err)
	}
	var profiles profile.Profiles
	of := script.Name{Tenant: "acme", Script: "route"}
	if _, err := profiles.Start(profile.Spec{Script: of, Duration: time.Minute}); err != nil {
		b.Fatal(err)
	}
	inv := &engine.Invocation{Tenant: "acme", Limits: script.MaxLimits(), Profile: profiles.Of(of, 1)}
	var res engine.Result
	b.ReportAllocs()
	for b.Loop() {
		res.Reset()
		if err := p.Run(b.Context(), inv, &res); err != nil {
			b.Fatal(err)
		}
	}
}
