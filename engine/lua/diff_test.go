package lua_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

// What a script computes here is compared with what PUC Lua 5.1 computes: for
// thousands of bodies of functions that generators make up. A difference is a
// fault, unless docs/lua.md declares it: see declared.

var (
	diffSeed  = flag.Uint64("lua.seed", 51, "make the differential tests from this seed; 0: from a new one, which is logged")
	diffCases = flag.Int("lua.cases", 1500, "how many cases each differential test makes")
	diffShow  = flag.String("lua.declared", "", "show the differences that the rule with these words declares")
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
OPERATORS
local out = {}
local function case(f) out[#out + 1] = pack(pcall(f)) end
`

// differ makes and compares cases. Its rand is seeded.
type differ struct {
	*rand.Rand
	driver string
	batch  int // how many cases are one program here
}

// cases is how many cases a differential test makes.
func cases() int {
	if testing.Short() {
		return *diffCases / 10
	}
	return *diffCases
}

// newDiffer returns a differ for t, and skips t where there is no lua5.1.
func newDiffer(t *testing.T) *differ {
	t.Helper()
	needs.NoRace(t)
	needs.Command(t, "lua5.1", "lua5.1")
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
	r := report{t: t, excused: map[string]int{}}
	var cut []comparison
	for start := 0; start < len(bodies); start += d.batch {
		batch := bodies[start:min(start+d.batch, len(bodies))]
		for i, ours := range d.outcomes(t, batch) {
			c := comparison{body: batch[i], here: ours, there: theirs[start+i]}
			switch rule := excuse(c.body, c.here, c.there); {
			case c.here == c.there:
			case rule != "":
				r.excuse(c, rule)
			case inRange(c.body) != c.body:
				cut = append(cut, c)
			default:
				r.differs(c)
			}
		}
	}
	d.compareCut(t, &r, cut)
	t.Logf("%d cases, %d differences", len(bodies), r.differences)
	for _, rule := range slices.Sorted(maps.Keys(r.excused)) {
		t.Logf("%5d declared: %s", r.excused[rule], rule)
	}
}

// numerals are those of a body, or bytes of a string of it.
var numerals = regexp.MustCompile(`\\\d{3}|0x[0-9a-fA-F]+|1/0|2\^\d+|\d+(?:\.\d+)?(?:e[-+]?\d+)?`)

// inRange returns s with the largest number of 32 bits in place of larger ones, which
// Lua cuts where it wants a position or a count.
func inRange(s string) string {
	return numerals.ReplaceAllStringFunc(s, func(text string) string {
		hexadecimal, isHexadecimal := strings.CutPrefix(text, "0x")
		n, _ := strconv.ParseFloat(text, 64)
		if isHexadecimal {
			bits, _ := strconv.ParseUint(hexadecimal, 16, 64)
			n = float64(bits)
		}
		if n > math.MaxInt32 || text == "1/0" || strings.HasPrefix(text, "2^") {
			return "2147483647"
		}
		return text
	})
}

// compareCut compares once more: what is large here has to be what the largest number
// of 32 bits is there.
func (d *differ) compareCut(t *testing.T, r *report, cut []comparison) {
	t.Helper()
	if len(cut) == 0 {
		return
	}
	bodies := make([]string, len(cut))
	for i, c := range cut {
		bodies[i] = inRange(c.body)
	}
	for i, there := range d.reference(t, bodies) {
		here, there := inRange(cut[i].here), inRange(there)
		if there == here || excuse(bodies[i], here, there) != "" {
			r.excuse(cut[i], "are not cut to 32 bits")
			continue
		}
		r.differs(cut[i])
	}
}

// comparison is a case and what it does here and there.
type comparison struct{ body, here, there string }

func (c comparison) String() string {
	return fmt.Sprintf("%s\n   here %s\n  there %s", c.body, c.here, c.there)
}

// report counts differences.
type report struct {
	t           *testing.T
	differences int
	excused     map[string]int
}

func (r *report) excuse(c comparison, rule string) {
	r.excused[rule]++
	if *diffShow != "" && strings.Contains(rule, *diffShow) {
		r.t.Log(c)
	}
}

func (r *report) differs(c comparison) {
	const most = 40
	if r.differences++; r.differences <= most {
		r.t.Error(c)
	}
}

// Functions that bodies call in place of operators, on a line: what they are here, and
// what makes them the same there. Here the remainder is exact and integers print all
// their digits, as docs/lua.md declares.
const (
	operators      = `local function mod(a, b) return a % b end local function join(a, b) return a .. b end`
	exactOperators = `local function mod(a, b) local _, r, below = a % b, math.fmod(a, b), b + 0 < 0 ` +
		`if r == 0 then return 0 end return (r < 0) == below and r or r + b end ` +
		`local function digits(v) return type(v) == "number" and v % 1 == 0 and math.abs(v) <= 2^53 and format("%.0f", v) or v end ` +
		`local function join(a, b) return digits(a) .. digits(b) end`
)

// cases returns the Lua that runs the bodies.
func (d *differ) cases(bodies []string, operators string) string {
	var b strings.Builder
	b.WriteString(strings.Replace(d.driver, "OPERATORS", operators, 1))
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
	cmd.Stdin = strings.NewReader(d.cases(bodies, exactOperators) + `io.write(concat(out, "\n"), "\n")`)
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
	source := d.cases(bodies, operators)
	p, err := lua.New().Compile(engine.Source{Code: []byte(source + "return out")})
	if err != nil {
		t.Fatalf("%v in\n%.4000s", err, source)
	}
	limits := script.MaxLimits()
	limits.Coroutines = true
	var res engine.Result
	if err := p.Run(t.Context(), &engine.Invocation{Tenant: "acme", Limits: limits}, &res); err != nil {
		t.Fatalf("%v in\n%.4000s", err, source)
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
