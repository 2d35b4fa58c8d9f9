package luajson_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestResultsAsJSON(t *testing.T) {
	e := lua.New()
	for expression, want := range map[string]string{
		`nil`:                       `null`,
		`json.null`:                 `null`,
		`{}`:                        `{}`,
		`json.array()`:              `[]`,
		`json.array({})`:            `[]`,
		`{1, 2, 3}`:                 `[1,2,3]`,
		`{1, nil, 3}`:               `[1,null,3]`,
		`{[1] = "a", [2] = 2}`:      `["a",2]`,
		`{[3] = "c"}`:               `[null,null,"c"]`,
		`{[1000] = 1}`:              `{"1000":1}`,
		`{[0] = "zero", "one"}`:     `{"1":"one","0":"zero"}`,
		`{1, a = 2}`:                `{"1":1,"a":2}`,
		`{[1.5] = 1}`:               `{"1.5":1}`,
		`{b = 1, a = 2}`:            `{"b":1,"a":2}`,
		`2^53`:                      `9007199254740992`,
		`2^53 + 2`:                  `9.007199254740994e+15`,
		`-0`:                        `0`,
		`0.1`:                       `0.1`,
		`1e300`:                     `1e+300`,
		`"a\0b\127"`:                "\"a\\u0000b\x7f\"",
		`json.decode("[]")`:         `[]`,
		`json.decode('{"a":[]}').a`: `[]`,
		`(function() local t = json.decode("[1]") t[2] = 2 return t end)()`:   `[1,2]`,
		`(function() local t = json.decode("[1]") t[1] = nil return t end)()`: `[]`,
		`setmetatable({1}, {__index = error, __len = error})`:                 `[1]`,
		`setmetatable({}, {__tostring = error})`:                              `{}`,
		`json.null == json.null`:                                              `true`,
		`json.null and 1`:                                                     `1`,
		`json.decode("null") == nil`:                                          `true`,
		`tostring(json.null)`:                                                 `"null"`,
		`type(json.null)`:                                                     `"userdata"`,
		`json.encode({1, {a = json.null}, "x"})`:                              `"[1,{\"a\":null},\"x\"]"`,
		`getmetatable(json.decode("[]")) == nil`:                              `true`,
		`#json.decode("[1,null,3]")`:                                          `3`,
		`json.decode("[1,null,3]")[2] == json.null`:                           `true`,
	} {
		p, err := e.Compile(engine.Source{Code: []byte("return " + expression)})
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if got, err := luatest.Run(t, p, "acme"); err != nil || got != want {
			t.Errorf("%s = %s, %v, want %s", expression, got, err, want)
		}
	}
}

func TestResultsWithoutJSON(t *testing.T) {
	e := lua.New()
	for expression, want := range map[string]string{
		`print or type`:        `result 1 is a function, which JSON cannot say`,
		`1, {a = {type}}`:      `result 2.a[1] is a function, which JSON cannot say`,
		`{string}`:             `result 1[1] is a library, which JSON cannot say`,
		`1/0`:                  `result 1 is inf, which JSON cannot say`,
		`{x = {y = 0/0}}`:      `result 1.x.y is nan, which JSON cannot say`,
		`"\255"`:               `result 1 is text that is not UTF-8`,
		`{["\255"] = 1}`:       `result 1 is text that is not UTF-8`,
		`{[true] = 1}`:         `result 1 has a boolean as a name`,
		`{[0] = 1, ["0"] = 2}`: `result 1 has both the number 0 and the text "0" as names`,
		`(function() local t = json.array() t.x = 1 return t end)()`:                `result 1[x] is a member of an array: its names must be 1, 2, 3 and so on`,
		`(function() local t = json.array() t[5000] = 1 return t end)()`:            `result 1 is an array with too many holes`,
		`(function() local t = {} for i = 1, 40 do t = {t} end return t end)()`:     `the results are nested deeper than 32, or contain themselves`,
		`(function() local t = {} for i = 1, 20000 do t[i] = 1 end return t end)()`: `the results have more than 16384 values`,
	} {
		p, err := e.Compile(engine.Source{Code: []byte("return " + expression)})
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		_, err = luatest.Run(t, p, "acme")
		if kind := script.KindOf(err); kind != kindOf(want) || script.AsError(err).Message != want {
			t.Errorf("%s: %v (%s), want %s", expression, err, kind, want)
		}
	}
}

// kindOf is the kind that goes with a message of TestResultsWithoutJSON: a
// result is never the caller's fault.
func kindOf(message string) script.Kind {
	if strings.HasPrefix(message, "the results ") {
		return script.Limit
	}
	return script.Script
}

// FuzzJSON passes JSON through a script and compares with what encoding/json
// makes of it: what is accepted, and what it means.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`null`, `[1,2.5,-3e2,"x\u00e9\ud83c\udf89\n"]`, `{"a":{"b":[]},"c":{}}`, `"\ud800"`, `"\ud800\ud800\udc00"`,
		` [ ] `, `[1,]`, `01`, `"\q"`, `{"a":1,"a":2}`, `1e999`, `[[[[[[]]]]]]`, `-0`, `{"1":1}`, `[null]`, "\"\x7f\"", `1E+2`,
	} {
		f.Add([]byte(seed))
	}
	p, err := lua.New().Compile(engine.Source{Code: []byte(`function handle(v) return v end`), Entrypoint: "handle"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var res engine.Result
		err := p.Run(t.Context(), &engine.Invocation{Args: [][]byte{text}}, &res)
		var want, got any
		refused := json.Unmarshal(text, &want)
		if err != nil {
			// The bounds and strict UTF-8 are ours alone.
			if refused == nil && script.KindOf(err) == script.Invalid && len(text) < 32 && json.Valid([]byte(string([]rune(string(text))))) && string([]rune(string(text))) == string(text) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if refused != nil {
			t.Fatalf("%q is accepted: %s", text, refused)
		}
		if err := json.Unmarshal(res.Value(0), &got); err != nil {
			t.Fatalf("%q came back as %q: %v", text, res.Value(0), err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q came back as %q", text, res.Value(0))
		}
	})
}
