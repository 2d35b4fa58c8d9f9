package lua_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestMessages holds the words of errors that scripts run into, both as they
// leave the engine and as pcall hands them out.
func TestMessages(t *testing.T) {
	e := lua.New()
	for statement, want := range map[string]string{
		`local t = nil; return t.path`:                                 `attempt to index local 't' (a nil value, key 'path')`,
		`local t = {}; return t.a.b`:                                   `attempt to index field 'a' (a nil value, key 'b')`,
		`local t = {}; return t.a[1]`:                                  `attempt to index field 'a' (a nil value, key '1')`,
		`local t = {}; return t["it's) with key"].x["'"]`:              `attempt to index field 'it's) with key' (a nil value, key 'x')`,
		`local t; return t[("é"):rep(30) .. "'"]`:                      "attempt to index local 't' (a nil value, key 'éééééééééééééééééééé…')",
		`local t; return t["x" .. ("é"):rep(30)]`:                      "attempt to index local 't' (a nil value, key 'xééééééééééééééééééé…')",
		`error("script:123")`:                                          `script:123`,
		`error("attempt to index a non-table object(")`:                `attempt to index a non-table object(`,
		`error("attempt to index a non-table object(nil) with key '")`: `attempt to index a non-table object(nil) with key '`,
		`error("attempt to compare apples with pears")`:                `attempt to compare apples with pears`,
		`local t; t.x = 1`:                                             `attempt to index local 't' (a nil value, key 'x')`,
		`local t; t[true] = 1`:                                         `attempt to index local 't' (a nil value, key 'true')`,
		`local t = 5; return t.x`:                                      `attempt to index local 't' (a number value, key 'x')`,
		`return json.null.x`:                                           `attempt to index field 'null' (a null value, key 'x')`,
		`local s; return s:upper()`:                                    `attempt to index local 's' (a nil value, key 'upper')`,
		`return missing()`:                                             `attempt to call global 'missing' (a nil value)`,
		`local t = {}; t.f()`:                                          `attempt to call field 'f' (a nil value)`,
		`local t = {}; t:f()`:                                          `attempt to call method 'f' (a nil value)`,
		`return (true)()`:                                              `attempt to call a boolean value`,
		`return (5)()`:                                                 `attempt to call a number value`,
		`return ("x")()`:                                               `attempt to call a string value`,
		`return ({})()`:                                                `attempt to call a table value`,
		`return json.null()`:                                           `attempt to call field 'null' (a null value)`,
		`return json()`:                                                `attempt to call global 'json' (a table value)`,
		`for k in missing do end`:                                      `attempt to call a nil value`,
		`return 1 + nil`:                                               `attempt to perform arithmetic on a nil value`,
		`return {} * 2`:                                                `attempt to perform arithmetic on a table value`,
		`return "x" - 2`:                                               `attempt to perform arithmetic on a string value`,
		`return "5" / nil`:                                             `attempt to perform arithmetic on a nil value`,
		`return 2 ^ json.null`:                                         `attempt to perform arithmetic on field 'null' (a null value)`,
		`return -missing`:                                              `attempt to perform arithmetic on global 'missing' (a nil value)`,
		`return -{}`:                                                   `attempt to perform arithmetic on a table value`,
		`local s = "x"; return -s`:                                     `attempt to perform arithmetic on local 's' (a string value)`,
		`return -json.null`:                                            `attempt to perform arithmetic on field 'null' (a null value)`,
		`return -print or -type`:                                       `attempt to perform arithmetic on global 'print' (a nil value)`,
		`return -type`:                                                 `attempt to perform arithmetic on global 'type' (a function value)`,
		`return "a" .. json.null`:                                      `attempt to concatenate field 'null' (a null value)`,
		`return "a" .. nil`:                                            `attempt to concatenate a nil value`,
		`return #json.null`:                                            `attempt to get length of field 'null' (a null value)`,
		`return 1 < "2"`:                                               `attempt to compare number with string`,
		`return {} < {}`:                                               `attempt to compare two table values`,
		`return nil <= nil`:                                            `attempt to compare two nil values`,
		`return json.null < 1`:                                         `attempt to compare null with number`,
		`for i = "a", 2 do end`:                                        `'for' initial value must be a number`,
		`for i = 1, {} do end`:                                         `'for' limit must be a number`,
		`for i = 1, 2, {} do end`:                                      `'for' step must be a number`,
		`local t = {}; t[nil] = 1`:                                     `table index is nil`,
		`return ("x"):rep(json.null)`:                                  `bad argument #2 to 'string.rep' (number expected, got null)`,
		`return tosrting(1)`:                                           `attempt to call global 'tosrting' (a nil value): did you mean tostring?`,
		`log.inof("x")`:                                                `attempt to call field 'inof' (a nil value): did you mean log.info?`,
		`local t = {}; t.inof()`:                                       `attempt to call field 'inof' (a nil value)`,
		`return config.a.b`:                                            `attempt to index field 'a' (a nil value, key 'b')`,
		`return "a" .. config.b`:                                       `attempt to concatenate field 'b' (a nil value)`,
		`local a, b = 1; return "x" .. a .. b`:                         `attempt to concatenate local 'b' (a nil value)`,
		`local t = {}; return 1 + t.n`:                                 `attempt to perform arithmetic on field 'n' (a nil value)`,
		`local t = {}; return (t.a or t.b).c`:                          `attempt to index a nil value (key 'c')`,
		`local up; return (function() return up.x end)()`:              `attempt to index upvalue 'up' (a nil value, key 'x')`,
		`local t; for i = 1, 2 do local x = t[i] end`:                  `attempt to index local 't' (a nil value, key '1')`,
		`error("attempt to guess")`:                                    `attempt to guess`,
		`error(json.null)`:                                             `the script raised a null`,
		`return json.encode(0/0)`:                                      `the value is nan, which JSON cannot say`,
	} {
		p, err := e.Compile(engine.Source{Code: []byte("\n" + statement)})
		if err != nil {
			t.Errorf("%s: %v", statement, err)
			continue
		}
		_, err = luatest.Run(t, p, "acme")
		got := script.AsError(err)
		if got == nil || got.Kind != script.Script || got.Message != want || got.Line != 2 {
			t.Errorf("%s: %v (%s), want %s at line 2", statement, err, script.KindOf(err), want)
		}
		if statement == `error(json.null)` {
			continue // pcall hands out the value
		}
		p, err = e.Compile(engine.Source{Code: []byte("local ok, caught = pcall(function()\n" + statement + "\nend) return caught")})
		if err != nil {
			t.Errorf("%s: %v", statement, err)
			continue
		}
		if got, err := luatest.Run(t, p, "acme"); err != nil || got != quote("script:2: "+want) {
			t.Errorf("%s: caught %s, %v, want %s", statement, got, err, want)
		}
	}
}

// TestNamesOfGlobals: a global variable is called one, also in a script whose globals became local variables.
func TestNamesOfGlobals(t *testing.T) {
	e := lua.New()
	for source, want := range map[string]string{
		`helper = nil function handle() return helper.x end`:                    `attempt to index global 'helper' (a nil value, key 'x')`,
		`helper = nil function handle() return _G and helper.x end`:             `attempt to index global 'helper' (a nil value, key 'x')`,
		`local helper function handle() return helper.x end`:                    `attempt to index upvalue 'helper' (a nil value, key 'x')`,
		`tostring = {} function handle() return tostring.x() end`:               `attempt to call field 'x' (a nil value)`,
		`function handle() local t = setmetatable({}, {__index = 1}) t.a() end`: `attempt to index a number value (key 'a')`,
		`function handle() for i = 1, 3 do pcall(nil) end return missing.a end`: `attempt to index global 'missing' (a nil value, key 'a')`,
		`function handle(a) local b = a and a.b or a.c return b.d end`:          `attempt to index local 'b' (a nil value, key 'd')`,
	} {
		if got := luatest.Outcome(t, e, source, "", "{}"); !strings.HasPrefix(got, "SCRIPT: "+want) {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
}

// TestPlainValuesShowNoMetatable: what makes the messages is not for scripts.
func TestPlainValuesShowNoMetatable(t *testing.T) {
	p, err := lua.New().Compile(engine.Source{Code: []byte(
		`return getmetatable(nil) == nil and getmetatable(true) == nil and getmetatable(1) == nil and getmetatable(type) == nil,
			-("0x10"), -(" 2 "), nil == nil, true ~= false, pcall(nil)`)})
	if err != nil {
		t.Fatal(err)
	}
	var res engine.Result
	if err := p.Run(t.Context(), &engine.Invocation{Tenant: "acme"}, &res); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{`true`, `-16`, `-2`, `true`, `true`, `false`} {
		if got := string(res.Value(i)); got != want {
			t.Errorf("value %d = %s, want %s", i+1, got, want)
		}
	}
}

func TestMessagesOfTimeAndBudget(t *testing.T) {
	p, err := lua.New().Compile(engine.Source{Code: []byte(`while true do end`)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = luatest.RunUnder(t, script.Limits{Timeout: 100 * time.Millisecond, Instructions: script.MaxLimits().Instructions}, p, "acme")
	if want := "the call ran longer than 100ms"; err == nil || script.AsError(err).Message != want {
		t.Errorf("error = %v, want %s", err, want)
	}
	_, err = luatest.RunUnder(t, script.Limits{Timeout: luatest.Patient, Instructions: 1_000_000}, p, "acme")
	if want := "the call used up its 1000000 instructions"; err == nil || script.AsError(err).Message != want {
		t.Errorf("error = %v, want %s", err, want)
	}

	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	given, giveUp := context.WithCancel(t.Context())
	giveUp()
	for _, test := range []struct {
		ctx   context.Context
		cause error
		want  string
	}{
		{late, context.DeadlineExceeded, "the call's time ran out before it began"},
		{given, context.Canceled, "the caller gave up before the call began"},
	} {
		var res engine.Result
		err := p.Run(test.ctx, &engine.Invocation{Tenant: "acme"}, &res)
		if script.KindOf(err) != script.Timeout || err.Error() != test.want || !errors.Is(err, test.cause) {
			t.Errorf("error = %v, want %s because of %v", err, test.want, test.cause)
		}
	}
}
