package hostlib_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestLogLines(t *testing.T) {
	e := lua.New()
	for _, test := range []struct{ body, want string }{
		{`log.info("hello")`, "hello"},
		{`log.info(12)`, "12"},
		{`log.info(true)`, "true"},
		{`log.info(nil)`, "nil"},
		{`log.info(json.null)`, "null"},
		{`log.info("")`, ""},
		{`log.info({1, 2, {a = "b"}})`, `[1,2,{"a":"b"}]`},
		{`log.info(a)`, `{"a":1,"b":[]}`},
		{`log.info("x", {user = "ann", n = 3, ok = false})`, "x user=ann n=3 ok=false"},
		{`log.info("x", {a = "two words", b = "", c = 'say "hi"', d = "a=b"})`, `x a="two words" b="" c="say \"hi\"" d="a=b"`},
		{`log.info("x", {t = {1, 2}})`, "x t=[1,2]"},
		{`log.info("x", a)`, `x a=1 b=[]`},
		{`log.info("x", {f = log.info == log_info and 1 or {tostring}})`, `x f=table (which[1] is a function, which JSON cannot say)`},
		{`log.info("line one\nline two\r\n\ttab")`, `line one\nline two\r\n\ttab`},
		{`log.info("\27[31mred\0\127")`, `\x1b[31mred\x00\x7f`},
		{`log.info("\255\254 \195\188")`, "\uFFFD\uFFFD ü"},
		{`log.info("\226\128\174 \194\133 \226\128\168")`, `\u202e \u0085 \u2028`},
		{`log.info("x", {["a\nb"] = "c\nd"})`, `x a\nb="c\nd"`},
		{`log.info(setmetatable({}, {__tostring = function() return "mine" end}))`, "mine"},
		{`log.info("back\\slash")`, `back\slash`},
	} {
		host := &enginetest.Host{}
		inv := &engine.Invocation{Tenant: "acme", Script: "edge", Version: 7, Traceparent: "tp", Host: host, Limits: script.Limits{Timeout: luatest.Patient}}
		if _, err := luatest.Evaluate(t, e, inv, test.body, `{"a":1,"b":[]}`); err != nil {
			t.Errorf("%s: %v", test.body, err)
			continue
		}
		want := enginetest.Line{Tenant: "acme", Script: "edge", Version: 7, Traceparent: "tp", Level: engine.Info, Message: test.want}
		if got := host.Lines(); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %+v, want %+v", test.body, got, want)
		}
	}
}

func TestLogLevels(t *testing.T) {
	host := &enginetest.Host{}
	inv := &engine.Invocation{Tenant: "acme", Host: host, Limits: script.Limits{Timeout: luatest.Patient}}
	if _, err := luatest.Evaluate(t, lua.New(), inv, `log.info(1) log.warn(2) log.error(3) log_info(4)`); err != nil {
		t.Fatal(err)
	}
	want := []engine.Level{engine.Info, engine.Warn, engine.Error, engine.Info}
	for i, line := range host.Lines() {
		if line.Level != want[i] {
			t.Errorf("line %d is of level %s, want %s", i+1, line.Level, want[i])
		}
	}
}

func TestLogMistakes(t *testing.T) {
	luatest.RunCases(t, func() *enginetest.Host { return &enginetest.Host{} }, []luatest.Case{
		{Body: "log.info()", Fail: "bad argument #1 to 'log.info' (value expected)"},
		{Body: "log.warn('x', 'y')", Fail: "bad argument #2 to 'log.warn' (table expected, got string)"},
		{Body: "log.error(setmetatable({}, {__tostring = function() return {} end}))", Fail: "must return a string"},
		{Body: "log.info('x', {a = setmetatable({}, {__tostring = function() error('boom') end})})", Fail: "boom"},
	})
}

// TestLogLineIsBounded logs what should be too long, and wants a line that is not, is
// UTF-8, and says that it is cut.
func TestLogLineIsBounded(t *testing.T) {
	e := lua.New()
	for _, body := range []string{
		`log.info(("x"):rep(4097))`,
		`log.info(("x"):rep(200000))`,
		`log.info(("\n"):rep(4000))`,
		`log.info(("\195\188"):rep(4000))`,
		`log.info(("\255"):rep(4000))`,
		`log.info("x" .. ("\226\128\174"):rep(4000))`,
		`local t = {} for i = 1, 3000 do t["k" .. i] = i end log.info("x", t)`,
		`log.info("x", {a = (" "):rep(100000), b = 1})`,
		`log.info("x", {[("k"):rep(100000)] = ("v"):rep(100000)})`,
	} {
		host := &enginetest.Host{}
		inv := &engine.Invocation{Tenant: "acme", Host: host, Limits: script.Limits{Timeout: luatest.Patient}}
		if _, err := luatest.Evaluate(t, e, inv, body); err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		line := host.Lines()[0].Message
		if len(line) > 4096 || len(line) < 4000 || !utf8.ValidString(line) || !strings.HasSuffix(line, "…") || strings.ContainsAny(line, "\n\x00\x1b") {
			t.Errorf("%s: a line of %d bytes that ends with %q", body, len(line), line[max(len(line)-20, 0):])
		}
	}
	host := &enginetest.Host{}
	inv := &engine.Invocation{Tenant: "acme", Host: host, Limits: script.Limits{Timeout: luatest.Patient}}
	if _, err := luatest.Evaluate(t, e, inv, `local t = {} for i = 1, 3000 do t[i] = "item" end log.info(t)`); err != nil {
		t.Fatal(err)
	}
	if line := host.Lines()[0].Message; line != "table (the values are larger than 4096 bytes)" {
		t.Errorf("a large table is logged as %.100q", line)
	}
}

func TestLogIsCharged(t *testing.T) {
	host := &enginetest.Host{}
	inv := &engine.Invocation{Tenant: "acme", Host: host, Limits: script.Limits{Timeout: luatest.Patient, Instructions: 100_000}}
	_, err := luatest.Evaluate(t, lua.New(), inv, `while true do pcall(log.info, ("x"):rep(4000)) end`)
	if script.KindOf(err) != script.Limit {
		t.Errorf("error = %v, want a Limit", err)
	}
	if n := len(host.Lines()); n > 400 {
		t.Errorf("%d lines for 100,000 instructions", n)
	}
}
