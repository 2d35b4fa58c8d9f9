package lua

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

// upstream is what comes of the scripts with which gopher-lua tests its machine, Lua's own among them: the lines whose
// assertions do not hold here, and how the script ends, where it does not reach its end. What is missing is a library that
// scripts do not have (debug, io, setfenv of another thread, string.dump, ...), a bound (256 calls, tail calls included),
// or another message.
var upstream = map[string]string{
	"_glua-tests/base.lua":         "4 attempt to call global 'load' (a nil value) (line 12)",
	"_glua-tests/coroutine.lua":    "8 17",
	"_glua-tests/db.lua":           "attempt to index global 'debug' (a nil value, key 'setfenv') (line 8)",
	"_glua-tests/issues.lua":       "78 83 90 107 167 208 212 217 attempt to index global 'io' (a nil value, key 'open') (line 476)",
	"_glua-tests/math.lua":         "7 12",
	"_glua-tests/os.lua":           "attempt to call field 'getenv' (a nil value) (line 2)",
	"_glua-tests/strings.lua":      "5 7",
	"_glua-tests/vm.lua":           "5 5 5 5 33 40 47 52 57",
	"_lua5.1-tests/all.lua":        "unexpected '#'",
	"_lua5.1-tests/attrib.lua":     "module 'io' not found: there are base64, coroutine, counter, crypto, json, kube, kv, log, math, os, ratelimit, re, scriptorium, string, table, time (line 8)",
	"_lua5.1-tests/big.lua":        "a string repeated 33554432 times is over the limit of 4194304 bytes (line 3)",
	"_lua5.1-tests/calls.lua":      "stack overflow: calls are nested more than 256 deep, or hold too many values (line 103)",
	"_lua5.1-tests/closure.lua":    "attempt to index global 'coroutine' (a nil value, key 'yield') (line 168)",
	"_lua5.1-tests/constructs.lua": "attempt to index global 'debug' (a nil value, key 'getinfo') (line 189)",
	"_lua5.1-tests/db.lua":         "attempt to index global 'debug' (a nil value, key 'getinfo') (line 25)",
	"_lua5.1-tests/errors.lua":     "20 39 40 1 42 1 43 44 20 12 bad argument #1 to 'string.find' (string expected, got boolean) (line 12)",
	"_lua5.1-tests/events.lua":     "'tostring' must return a string (line 22)",
	"_lua5.1-tests/files.lua":      "attempt to call field 'tmpname' (a nil value) (line 1)",
	"_lua5.1-tests/gc.lua":         "the call made more than 65536 KiB of strings, tables and functions (line 93)",
	"_lua5.1-tests/literals.lua":   "3 attempt to call a nil value (line 3)",
	"_lua5.1-tests/locals.lua":     "63 67 68 69 attempt to call global 'getfenv' (a nil value) (line 82)",
	"_lua5.1-tests/main.lua":       "unexpected '#'",
	"_lua5.1-tests/math.lua":       "attempt to index global 'io' (a nil value, key 'tmpfile') (line 126)",
	"_lua5.1-tests/nextvar.lua":    "attempt to call field 'foreach' (a nil value) (line 174)",
	"_lua5.1-tests/pm.lua":         "235",
	"_lua5.1-tests/strings.lua":    "57 attempt to call field 'setlocale' (a nil value) (line 147)",
	"_lua5.1-tests/verybig.lua":    "attempt to call field 'tmpname' (a nil value) (line 89)",
}

// TestUpstream runs them on the machine of this engine, with a few functions that they need more.
func TestUpstream(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(moduleDir(t, "github.com/yuin/gopher-lua"), "_*tests", "*.lua"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	ran, held := 0, 0
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file)) + "/" + filepath.Base(file)
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		asserted, got := runUpstream(code)
		if want := upstream[name]; got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
		ran, held = ran+1, held+asserted
	}
	t.Logf("%d assertions hold in %d scripts", held, ran)
}

func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-json", module).Output()
	var m struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m.Dir
}

// runUpstream returns how many assertions hold, and what did not go as it should.
func runUpstream(code []byte) (held int, wrong string) {
	c, problem := compile.Compile(compile.ChunkName, engine.Source{Code: []byte(strings.ToValidUTF8(string(code), "?"))}, sandbox())
	if problem != nil {
		return 0, problem.Message
	}
	p := &program{engine: New(), Compiled: c}
	s := newState("acme")
	limits := script.MaxLimits()
	s.meter.begin(limits)
	if err := p.prepare(s, &engine.Invocation{Limits: script.Limits{Coroutines: true}}); err != nil {
		return 0, err.Error()
	}
	var lines []string
	env := s.call.env
	env.RawSetString("_G", env)
	for name, fn := range upstreamFunctions(env) {
		env.RawSetString(name, values.Builtin(fn))
	}
	env.RawSetString("assert", values.Builtin(func(l *vm.LState) int {
		if held++; vm.LVIsFalse(l.Get(1)) {
			held--
			lines = append(lines, fmt.Sprint(bind.LineOf(l.Where(1))))
		}
		return l.GetTop()
	}))
	if err := s.call.enter(&s.meter); err != nil {
		lines = append(lines, err.Error())
	}
	return held, strings.Join(lines, " ")
}

func upstreamFunctions(env *vm.LTable) map[string]vm.LGFunction {
	nothing := func(l *vm.LState) int {
		l.Push(vm.LNumber(0))
		return 1
	}
	return map[string]vm.LGFunction{
		"print": nothing, "collectgarbage": nothing, "gcinfo": nothing,
		"loadstring": func(l *vm.LState) int {
			c, err := compile.Compile(compile.ChunkName, engine.Source{Code: []byte(bind.ArgString(l, 1))}, sandbox())
			if err != nil {
				l.Push(vm.LNil)
				l.Push(vm.LString(err.Error()))
				return 2
			}
			l.Push(&vm.LFunction{Proto: c.Proto, Env: env})
			return 1
		},
		"getfenv": func(l *vm.LState) int {
			l.Push(env)
			if fn, ok := l.Get(1).(*vm.LFunction); ok {
				l.Push(fn.Env)
			}
			return 1
		},
		"setfenv": func(l *vm.LState) int {
			fn, ok := l.Get(1).(*vm.LFunction)
			if !ok {
				fn = l.Frame().Parent.Fn
			}
			fn.Env, _ = l.Get(2).(*vm.LTable)
			l.Push(fn)
			return 1
		},
	}
}
