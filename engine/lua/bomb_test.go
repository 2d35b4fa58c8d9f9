package lua_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

// bombs would take all memory, or all of Go's stack, if they were let: each runs
// in a process of its own, with the highest limits that there are.
var bombs = map[string]string{
	"tables":       `local t = {} for i = 1, 1e9 do t[i] = {x = {}} end`,
	"arrays":       `local ts = {} for i = 1, 1e9 do local t = {} t[8191] = 1 ts[i] = t end`,
	"keys":         `local t = {} for i = 1, 1e9 do t[i + 0.5] = i end`,
	"named keys":   `local t = {} for i = 1, 1e9 do t["key" .. i] = i end`,
	"closures":     `local t = {} for i = 1, 1e9 do t[i] = function() return i end end`,
	"strings":      `local t = {} for i = 1, 1e9 do t[i] = ("x"):rep(1e6) .. i end`,
	"varargs":      `local t = {} for i = 1, 1e9 do t[i] = {unpack({}, 1, 7999)} end`,
	"arguments":    `local t = {} local function f(...) return arg end for i = 1, 1e9 do t[i] = f(unpack({}, 1, 7999)) end`,
	"json":         `local t, s = {}, "[" .. ("[],"):rep(10000) .. "1]" for i = 1, 1e9 do t[i] = json.decode(s) end`,
	"caught":       `local t = {} while true do pcall(function() while true do t[#t + 1] = {{}} end end) end`,
	"deep pcall":   `local function f(n) pcall(f, n + 1) end while true do f(1) end`,
	"deep sort":    `local function f() table.sort({1, 2, 3}, f) end while true do pcall(f) end`,
	"deep gsub":    `local function f() ("aa"):gsub("a", f) end while true do pcall(f) end`,
	"deep match":   `while true do pcall(string.find, ("a"):rep(1e6), ("a*"):rep(190) .. "b") end`,
	"deep results": `local t = {} for i = 1, 1e5 do t = {t} end return t`,
}

const bombVariable = "SCRIPTORIUM_TEST_BOMB"

func TestMain(m *testing.M) {
	if body, ok := os.LookupEnv(bombVariable); ok {
		os.Exit(explode(body))
	}
	os.Exit(m.Run())
}

// explode runs a bomb, prints the kind of error and the peak of memory, and
// checks that the process still serves.
func explode(body string) int {
	e := lua.New()
	bomb, err := e.Compile(engine.Source{Code: []byte("function handle() " + body + " end"), Entrypoint: "handle"})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	benign, err := e.Compile(engine.Source{Code: []byte("function handle() return 42 end"), Entrypoint: "handle"})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	limits := script.MaxLimits()
	limits.Timeout /= 5 // that suffices to fill any memory
	var res engine.Result
	failure := bomb.Run(bombContext, &engine.Invocation{Tenant: "mallory", Limits: limits}, &res)
	res.Reset()
	if err := benign.Run(bombContext, &engine.Invocation{Tenant: "acme"}, &res); err != nil || string(res.Value(0)) != "42" {
		fmt.Println("after the bomb:", err)
		return 1
	}
	fmt.Println("kind", script.KindOf(failure))
	return 0
}

func TestBombs(t *testing.T) {
	const most = 2 << 30 // bytes; without the guard it is all there is
	for name, body := range bombs {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), bombVariable+"="+body, "GORACE=atexit_sleep_ms=0")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("the process died: %v\n%.2000s", err, out)
			}
			kind := lastField(string(out))
			if kind != string(script.Limit) && kind != string(script.Timeout) {
				t.Errorf("ended with %q:\n%.2000s", kind, out)
			}
			if peak := peakMemory(cmd); peak > most {
				t.Errorf("took %d MiB of memory", peak>>20)
			} else {
				t.Logf("%s, %d MiB", kind, peak>>20)
			}
		})
	}
}

func lastField(out string) string {
	last := ""
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		last = strings.TrimPrefix(lines.Text(), "kind ")
	}
	return last
}
