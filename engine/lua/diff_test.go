package lua_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

// What a script computes here is compared with what PUC Lua 5.1 computes: for
// thousands of bodies of functions that generators make up. A difference is a
// fault, unless docs/lua.md declares it: see declared.

var (
	diffSeed  = flag.Uint64("lua.seed", 51, "make the differential tests from this seed; 0: from a new one, which is logged")
	diffCases = flag.Int("lua.cases", 1500, "how many cases each differential test makes")
)

// diffDriver runs cases and shows what they return, or raise, as text.
var diffDriver = strings.NewReplacer("STRIPPED(s)", `gsub(gsub(s, "^%w+:%d+: ", ""), "^%w+:%d+: ", "")`).Replace(diffSource)

// diffPositions is diffDriver, but keeps the lines of messages.
var diffPositions = strings.NewReplacer("STRIPPED(s)", `gsub(s, "%w+(:%d+: )", "at%1")`).Replace(diffSource)

const diffSource = `
local format, byte, gsub, select, concat, maxn = string.format, string.byte, string.gsub, select, table.concat, table.maxn
local function text(s)
  return (gsub(STRIPPED(s), "[^ -Z%[%]%^_-~]", function(c) return format("\\%03d", byte(c)) end))
end
local function show(v, depth)
  local t = type(v)
  if t == "string" then return '"' .. text(v) .. '"' end
  if t == "number" then return v ~= v and "nan" or format("%.17g", v) end
  if t == "table" then
    if depth == 4 then return "{...}" end
    local items = {}
    for i = 1, math.min(maxn(v), 50) do items[i] = show(v[i], (depth or 0) + 1) end
    return "{" .. concat(items, ",") .. "}"
  end
  if t == "nil" or t == "boolean" then return tostring(v) end
  return t
end
local function pack(ok, ...)
  if not ok then
    local e = ...
    return "error " .. (type(e) == "string" and text(e) or show(e))
  end
  local shown = {}
  for i = 1, select("#", ...) do shown[i] = show((select(i, ...))) end
  return concat(shown, " ")
end
local out = {}
local function case(f) out[#out + 1] = pack(pcall(f)) end
`

// differ makes and compares cases. Its rand is seeded.
type differ struct {
	*rand.Rand
	driver string
	batch  int // how many cases are one program here
}

// newDiffer returns a differ for t, and skips t where there is no lua5.1.
func newDiffer(t *testing.T) *differ {
	t.Helper()
	if _, err := exec.LookPath("lua5.1"); err != nil {
		t.Skip("needs the command lua5.1, which .ci/run installs")
	}
	seed := *diffSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -lua.seed=%d", seed)
	return &differ{rand.New(rand.NewPCG(seed, 51)), diffDriver, 200}
}

// compare runs each body here and there, and reports the differences.
func (d *differ) compare(t *testing.T, bodies []string) {
	t.Helper()
	theirs := d.reference(t, bodies)
	excused := map[string]int{}
	differences := 0
	for start := 0; start < len(bodies); start += d.batch {
		batch := bodies[start:min(start+d.batch, len(bodies))]
		for i, ours := range d.outcomes(t, batch) {
			if ours == theirs[start+i] {
				continue
			}
			if rule := excuse(batch[i], ours, theirs[start+i]); rule != "" {
				excused[rule]++
				continue
			}
			if differences++; differences <= 40 {
				t.Errorf("%s\n   here %s\n  there %s", batch[i], ours, theirs[start+i])
			}
		}
	}
	t.Logf("%d cases, %d differences", len(bodies), differences)
	for _, rule := range slices.Sorted(maps.Keys(excused)) {
		t.Logf("%5d declared: %s", excused[rule], rule)
	}
}

// cases returns the Lua that runs the bodies.
func (d *differ) cases(bodies []string) string {
	var b strings.Builder
	b.WriteString(d.driver)
	for _, body := range bodies {
		fmt.Fprintf(&b, "case(function() %s end)\n", body)
	}
	return b.String()
}

// reference returns what the bodies do in PUC Lua 5.1, all in one process.
func (d *differ) reference(t *testing.T, bodies []string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "lua5.1", "-")
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC", "LUA_INIT=")
	cmd.Stdin = strings.NewReader(d.cases(bodies) + `io.write(concat(out, "\n"), "\n")`)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("lua5.1: %v\n%.2000s", err, stderr.String())
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(bodies) {
		t.Fatalf("lua5.1 answered %d of %d cases", len(lines), len(bodies))
	}
	return lines
}

// outcomes returns what the bodies do here, all in one call.
func (d *differ) outcomes(t *testing.T, bodies []string) []string {
	t.Helper()
	p, err := lua.New().Compile(engine.Source{Code: []byte(d.cases(bodies) + "return out")})
	if err != nil {
		t.Fatalf("%v in\n%.4000s", err, d.cases(bodies))
	}
	limits := script.MaxLimits()
	limits.Coroutines = true
	var res engine.Result
	if err := p.Run(t.Context(), &engine.Invocation{Tenant: "acme", Limits: limits}, &res); err != nil {
		t.Fatalf("%v in\n%.4000s", err, d.cases(bodies))
	}
	var got []string
	if err := json.Unmarshal(res.Value(0), &got); err != nil || len(got) != len(bodies) {
		t.Fatalf("%d of %d cases: %v", len(got), len(bodies), err)
	}
	return got
}

// make returns n cases of a generator.
func (d *differ) make(n int, generate func() string) []string {
	bodies := make([]string, n)
	for i := range bodies {
		bodies[i] = generate()
	}
	return bodies
}

// pick returns one of the choices.
func pick[T any](d *differ, choices ...T) T { return choices[d.IntN(len(choices))] }

// chance reports true once in n times.
func (d *differ) chance(n int) bool { return d.IntN(n) == 0 }

// literal writes s as a string of Lua.
func literal(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			fmt.Fprintf(&b, "\\%03d", c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
