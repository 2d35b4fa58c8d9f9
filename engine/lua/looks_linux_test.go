package lua_test

import (
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// longest is for how many plain instructions a builtin may work on the longest input
// before it looks at its turn and its clock: one or two milliseconds.
const longest = 100_000

// M is a string as long as a string may be, and its digits, T a table of 60,000 names,
// and E one from which as many were removed.
const looksPrelude = `
local M = ("x"):rep(4194304)
local D = ("7"):rep(4194304)
local function T() local t = {} for i = 1, 60000 do t["n" .. i] = i end return t end
local function E() local t = T() for i = 1, 59999 do t["n" .. i] = nil end return t end
`

// longWork has one builtin each work on much: bodies behind looksPrelude.
var longWork = map[string]string{
	"upper":                  `M:upper()`,
	"lower":                  `M:lower()`,
	"reverse":                `M:reverse()`,
	"rep of one byte":        `("x"):rep(4194304)`,
	"rep with a separator":   `("x"):rep(1000000, "abc")`,
	"rep of a long one":      `M:sub(1, 2097152):rep(2)`,
	"concatenation":          `local s = M:sub(1, 2097151) local t = s .. s .. 1`,
	"concatenation of many":  `local s = M:sub(1, 1000) local t = s:rep(1000) .. s:rep(1000) .. s:rep(1000)`,
	"less":                   `local a, b = M:sub(1, -2) .. "a", M:sub(1, -2) .. "b" local c = a < b`,
	"less or equal":          `local a, b = M:sub(1, -2) .. "a", M:sub(1, -2) .. "b" local c = a <= b`,
	"equal":                  `local a, b = M:sub(1, -2) .. "a", M:sub(1, -2) .. "b" local c = a == b`,
	"long key":               `local t = {} t[M] = 1 local c = t[M]`,
	"key of nil":             `pcall(function() local n = nil return n[M] end)`,
	"key set of nil":         `pcall(function() local n = nil n[M] = 1 end)`,
	"find of plain text":     `M:find("y", 1, true)`,
	"find of long text":      `M:find(M:sub(1, 2000000) .. "y", 1, true)`,
	"find of a long pattern": `("x"):find(M)`,
	"find of colliding text": `local a, b = "a", "b" for i = 1, 9 do a, b = a .. b, b .. a end
		local p = a:rep(2000) M:find(p, 1, true);(a:rep(4000)):find(p:sub(1, -#a - 1) .. b, 1, true)`,
	"match":                   `M:match("^x*$")`,
	"match of a balance":      `M:find("^%bxy")`,
	"match of a set":          `M:find("^[abcx]*y")`,
	"match of a reference":    `(M:sub(1, 2000000) .. "y" .. M:sub(1, 2000000)):find("^(x*)y%1$")`,
	"long set":                `("y"):find("[" .. M:sub(1, 4000000) .. "]")`,
	"gsub":                    `M:sub(1, 200000):gsub("x", "yy")`,
	"gsub with a long text":   `("x"):gsub("x", M)`,
	"gsub with escapes":       `("x"):gsub("x", ("%%"):rep(2000000))`,
	"gsub of nothing":         `M:gsub("^y", "")`,
	"gmatch":                  `for w in M:gmatch("y") do end`,
	"format of text":          `("%s"):format(M)`,
	"format of quoted text":   `("%q"):format(M:sub(1, 4000000))`,
	"format of quotes":        `("%q"):format(('"'):rep(2000000))`,
	"long format":             `M:format()`,
	"format of percents":      `("%%"):rep(500000):format()`,
	"format and fail":         `pcall(string.format, "%s%d", M, {})`,
	"byte":                    `M:byte(1, 7999)`,
	"char":                    `string.char(M:byte(1, 7999))`,
	"tonumber":                `tonumber(D)`,
	"tonumber of hexadecimal": `tonumber("0x" .. D:sub(1, 4000000))`,
	"tonumber of spaces":      `tonumber((" "):rep(4194304))`,
	"tonumber of zeros":       `tonumber(("0"):rep(4000000) .. "." .. ("0"):rep(1000))`,
	"tonumber of exponents":   `tonumber("1e" .. D:sub(1, 4000000))`,
	"tonumber with a base":    `tonumber(D, 16)`,
	"tonumber of text":        `tonumber(M)`,
	"numeral plus one":        `local x = D + 1`,
	"minus numeral":           `local x = -D`,
	"numerals of max":         `math.max(unpack({D, D, D, D, D, D, D, D}))`,
	"many numerals of max":    `local t = {} for i = 1, 7999 do t[i] = "1" .. i .. "e-7" end math.max(unpack(t))`,
	"numeral as index":        `select(D, 1)`,
	"numerals of a date":      `os.time({year = D, month = D, day = D})`,
	"concat":                  `local t = {} for i = 1, 7999 do t[i] = "x" end table.concat(t, M:sub(1, 500))`,
	"concat of long ones":     `table.concat({M:sub(1, 2000000), M:sub(1, 2000000)})`,
	"concat and fail":         `pcall(table.concat, {M, {}})`,
	"sort":                    `local t = {} for i = 1, 60000 do t[i] = -i end table.sort(t)`,
	"sort of long strings":    `local s, t = M:sub(1, 400000), {} for i = 1, 8 do t[i] = s .. i end table.sort(t)`,
	"insert in front":         `local t = {} for i = 1, 60000 do t[i] = i end table.insert(t, 1, 0)`,
	"remove in front":         `local t = {} for i = 1, 60000 do t[i] = i end table.remove(t, 1)`,
	"maxn":                    `table.maxn(T())`,
	"length":                  `local t = {} t[8191] = 1 t[8191] = nil local n = #t`,
	"unpack":                  `unpack({}, 1, 7999)`,
	"select":                  `select("#", unpack({}, 1, 7999))`,
	"next of removed ones":    `local t = E() next(t) next(t)`,
	"pairs of removed ones":   `for k in pairs(E()) do end`,
	"maxn of removed ones":    `table.maxn(E())`,
	"JSON of removed ones":    `json.encode(E())`,
	"JSON of an array":        `local t = {} for i = 1, 16000 do t[i] = i end json.encode(t)`,
	"JSON of text":            `json.encode(M:sub(1, 4000000))`,
	"JSON of control bytes":   `json.encode(("\1"):rep(600000))`,
	"JSON of UTF-8":           `json.encode(("\195\164"):rep(2000000))`,
	"text from JSON":          `json.decode('"' .. M:sub(1, 4000000) .. '"')`,
	"UTF-8 from JSON":         `json.decode('"' .. ("\195\164"):rep(2000000) .. '"')`,
	"surrogates from JSON":    `json.decode('"' .. ("\\ud800"):rep(690000) .. '"')`,
	"surrogates in an object": `local v = json.decode('{"a":"' .. ("\\ud800"):rep(690000) .. '"}').a`,
	"digits from JSON":        `pcall(json.decode, D)`,
	"a fraction from JSON":    `json.decode("0." .. D:sub(1, 4000000))`,
	"fractions from JSON":     `json.decode("[" .. ("0." .. D:sub(1, 400) .. ","):rep(9000) .. "1]")`,
	"halves from JSON":        `json.decode("[" .. ("1." .. ("0"):rep(15) .. "1110223024625156540423631668090820312499e-300,"):rep(15000) .. "1]")`,
	"exponents from JSON":     `json.decode("[" .. ("1" .. D:sub(1, 300) .. "e-300,"):rep(9000) .. "1]")`,
	"spaces in JSON":          `json.decode((" "):rep(4000000) .. "1")`,
	"names in JSON":           `local v = json.decode('{"' .. M:sub(1, 4000000) .. '":1}')`,
	"many members":            `local t = {} for i = 1, 16000 do t[i] = '"n' .. i .. '":' .. i end local v = json.decode("{" .. table.concat(t, ",") .. "}") v.x = 1`,
	"deep objects":            `local v = json.decode(('{"a":'):rep(30) .. '"' .. ("\\ud800"):rep(600000) .. '"' .. ("}"):rep(30)) for i = 1, 29 do v = v.a end`,
	"invalid JSON":            `pcall(json.decode, '["' .. M:sub(1, 4000000))`,
	"error of long text":      `pcall(error, M)`,
	"error without position":  `pcall(error, M, 0)`,
	"assert of long text":     `pcall(assert, false, M)`,
	"errors behind each":      `local function f(n) if n == 0 then error("x") end return f(n - 1) end pcall(f, 1000000)`,
	"deep errors":             `local function f(n) if n == 0 then error("x") end return 1 + f(n - 1) end pcall(f, 180)`,
	"md5":                     `crypto.md5(M)`,
	"sha1":                    `crypto.sha1(M)`,
	"sha256":                  `crypto.sha256(M)`,
	"sha512":                  `crypto.sha512(M)`,
	"hmac":                    `crypto.hmac("sha512", M, M)`,
	"equal in constant time":  `crypto.equal(M, M:upper():lower())`,
	"hex":                     `crypto.hex(M:sub(1, 2000000))`,
	"unhex":                   `crypto.unhex(D)`,
	"base64":                  `base64.encode(M:sub(1, 3000000))`,
	"base64 decoded":          `base64.decode(D)`,
	"base64 of bad text":      `base64.decode(M:sub(1, 4000000) .. "!")`,
	"base64 of padding":       `base64.decode(("="):rep(4000000))`,
	"re.test":                 `re.test(M, "y")`,
	"re.find from behind":     `re.find(M:sub(1, 1000000), "y", 2)`,
	"re.gsub":                 `re.gsub(M:sub(1, 100000), "x", "yy")`,
	"re.gsub with a long one": `re.gsub("x", "x", M)`,
	"re.gsub with escapes":    `re.gsub("x", "x", ("%%"):rep(2000000))`,
	"re.escape":               `re.escape(M)`,
	"re.escape of dots":       `re.escape(("."):rep(2000000))`,
	"re with a large pattern": `re.test("x", ("[a-z]"):rep(180))`,
	"re with many sets":       `re.test("x", ("\\pL"):rep(9))`,
	"date":                    `os.date(M)`,
	"date of fields":          `os.date(("%Y"):rep(100000))`,
	"log of long text":        `log.info(M)`,
	"log of removed ones":     `log.info("x", E())`,
	"header with a long name": `get_request_header(M)`,
	"options of removed ones": `local t = E() t.n60000 = nil t.rate = 1 pcall(ratelimit.allow, "x", t)`,
	"bucket of a long name":   `pcall(ratelimit.allow, M, {rate = 1})`,
	"time of long text":       `time.parse(M)`,
	"tostring":                `tostring(M)`,
	"results":                 `return M:sub(1, 1000000)`,
}

// TestLooks has builtins work on the longest inputs that there are. None works for longer
// without a look at its turn than as many plain instructions take as are longest.
func TestLooks(t *testing.T) {
	needs.NoRace(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // or it would be measured as well
	// Memory that was used before costs no page faults. The runtime returns none to the system while
	// it holds much more than is used here.
	held := make([]byte, 1<<30)
	defer runtime.KeepAlive(held)
	unit := plainInstructions(t, longest)
	t.Logf("%d plain instructions take %v", longest, unit)
	e := lua.New()
	for name, body := range longWork {
		t.Run(name, func(t *testing.T) {
			p, err := e.Compile(engine.Source{Code: []byte(looksPrelude + body)})
			if err != nil {
				t.Fatal(err)
			}
			run := func() *timedTurn {
				runtime.GC()
				turn := &timedTurn{long: unit}
				limits := script.MaxLimits()
				limits.Timeout = luatest.Patient
				var res engine.Result
				err := p.Run(t.Context(), &engine.Invocation{Tenant: "acme", Turn: turn, Limits: limits, Host: &canaryHost{}}, &res)
				turn.look()
				if err != nil && script.KindOf(err) != script.Limit {
					t.Fatal(err)
				}
				return turn
			}
			// Others on the machine stop each run somewhere, and a slow machine stops it often. Runs look at
			// the same places, so what is slow by itself is slow at the same place in all of them.
			turn := run()
			for tries := 1; tries < 20 && len(turn.gaps) > 0; tries++ {
				again := run()
				if again.looks == turn.looks {
					maps.DeleteFunc(again.gaps, func(look int, _ time.Duration) bool { return turn.gaps[look] == 0 })
				}
				turn = again
			}
			t.Logf("%d looks", turn.looks)
			for look, gap := range turn.gaps {
				t.Errorf("worked for %v before look %d of %d; %d plain instructions take %v", gap, look, turn.looks, longest, unit)
			}
		})
	}
}

// timedTurn is always asked for, and notes what is long between two looks at it.
type timedTurn struct {
	ask   func()
	looks int
	last  time.Time
	long  time.Duration
	gaps  map[int]time.Duration // longer than long, by the number of the look that ends it
}

func (t *timedTurn) Bind(ask func()) {
	t.ask, t.gaps = ask, map[int]time.Duration{}
	t.last = time.Now()
	ask()
}

func (t *timedTurn) Yield() {
	t.look()
	t.ask()
}

func (t *timedTurn) look() {
	t.looks++
	now := time.Now()
	if gap := now.Sub(t.last); gap > t.long {
		t.gaps[t.looks] = gap
	}
	t.last = now
}

func (*timedTurn) Breathe() {}

// plainInstructions returns what n instructions of a plain loop take, at the quickest.
func plainInstructions(t *testing.T, n int) time.Duration {
	t.Helper()
	p := compiled(t, fmt.Sprintf(`local s = 0 for i = 1, %d do s = s + i end`, n/2))
	quickest := time.Hour
	for range 10 {
		runtime.GC() // so that memory is used again
		var res engine.Result
		before := processorTime()
		if err := p.Run(t.Context(), &engine.Invocation{Tenant: "acme", Limits: script.MaxLimits()}, &res); err != nil {
			t.Fatal(err)
		}
		quickest = min(quickest, processorTime()-before)
	}
	return quickest
}

// processorTime returns the time that this thread has had of a processor: what others do
// on the machine does not count.
func processorTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		return 0
	}
	return time.Duration(now.Nano())
}
