package expect

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/script"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		want, got string
		differs   string // where; "-" means nowhere
	}{
		{`{}`, `{"a":1}`, "-"},
		{`{"a":1}`, `{"b":2,"a":1}`, "-"},
		{`{"a":1}`, `{"a":2}`, "a"},
		{`{"a":1}`, `{}`, "a"},
		{`{"a":{"b":[1,{"c":"x"}]}}`, `{"a":{"b":[1,{"c":"x","d":0}],"e":0}}`, "-"},
		{`{"a":{"b":[1,{"c":"x"}]}}`, `{"a":{"b":[1,{"c":"y"}]}}`, "a.b[1].c"},
		{`{"a":null}`, `{}`, "-"},
		{`{"a":null}`, `{"a":null}`, "-"},
		{`{"a":null}`, `{"a":false}`, "a"},
		{`{"a":{"b":null}}`, `{}`, "a"},
		{`{"b":1,"a":1}`, `{"a":2,"b":2}`, "a"},
		{`[]`, `[]`, "-"},
		{`[]`, `{}`, ""},
		{`{}`, `[]`, ""},
		{`[1]`, `[1,2]`, ""},
		{`[1,2]`, `[1]`, ""},
		{`[null]`, `[]`, ""},
		{`[null]`, `[null]`, "-"},
		{`[1,2]`, `[2,1]`, "[0]"},
		{`null`, `null`, "-"},
		{`null`, `0`, ""},
		{`true`, `true`, "-"},
		{`true`, `"true"`, ""},
		{`"é"`, `"\u00e9"`, "-"},
		{`"a"`, `"a "`, ""},
		{`1`, `1.0`, "-"},
		{`1`, `"1"`, ""},
		{`100`, `1e2`, "-"},
		{`0.5`, `5E-1`, "-"},
		{`1e21`, `1e+21`, "-"},
		{`0`, `-0.0`, "-"},
		{`0e9`, `0.00`, "-"},
		{`0.1`, `0.10000000000000001`, ""},
		{`9007199254740993`, `9007199254740992`, ""},
		{`-1`, `1`, ""},
		{`10`, `1`, ""},
		{`0.01`, `0.1`, ""},
		{`1e999999999999`, `1e999999999999`, "-"},
		{`1e999999999999`, `1e999999999998`, ""},
		{`1e400000000`, `10e399999999`, "-"},
	} {
		d, err := match([]byte(c.want), []byte(c.got))
		switch {
		case err != nil:
			t.Errorf("%s with %s: %v", c.want, c.got, err)
		case (d == nil) != (c.differs == "-"), d != nil && d.path != c.differs:
			t.Errorf("%s with %s: %+v, want %s", c.want, c.got, d, c.differs)
		}
	}
	for _, bad := range []string{"", "{", "1 2", "nul"} {
		if _, err := match([]byte(bad), []byte("1")); err == nil {
			t.Errorf("%q is expected", bad)
		}
		if _, err := match([]byte("1"), []byte(bad)); err == nil {
			t.Errorf("%q is a result", bad)
		}
	}
}

func FuzzMatch(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.50,{"b":null}],"c":"x"}`, `-0.00e-3`, `1e9999999999`, `[[[]]]`, `"\ud800"`, `{"a":1,"a":2}`} {
		f.Add([]byte(s), []byte(s))
		f.Add([]byte(s), []byte(`{}`))
	}
	f.Fuzz(func(t *testing.T, want, got []byte) {
		d, err := match(want, got)
		if sound := json.Valid(want) && json.Valid(got); sound != (err == nil) {
			t.Fatalf("%q with %q: %v", want, got, err)
		}
		if err != nil {
			return
		}
		if same, err := match(want, want); err != nil || same != nil {
			t.Errorf("%q is not as it is itself: %+v, %v", want, same, err)
		}
		// What is said of it can be sent, whatever they are.
		e := Check(script.Test{Name: "t", Expect: want}, results{got}, nil)
		if (e == nil) != (d == nil) {
			t.Fatalf("%q with %q: %+v, judged %v", want, got, d, e)
		}
		if e != nil && (len(e.Message) > maxMessage || !utf8.ValidString(e.Message)) {
			t.Errorf("said is %q", e.Message)
		}
	})
}

// results are values that a call returned.
type results [][]byte

func (r results) Len() int           { return len(r) }
func (r results) Value(i int) []byte { return r[i] }

func TestWhatIsSaidOfATestThatFailed(t *testing.T) {
	long := strings.Repeat("é", 300)
	for name, c := range map[string]struct {
		test script.Test
		got  string
		err  error
		want string // "" means that it passes
		kind script.Kind
	}{
		"as expected":     {script.Test{Expect: []byte(`{"a":1}`)}, `{"a":1,"b":2}`, nil, "", ""},
		"anything":        {script.Test{}, `7`, nil, "", ""},
		"another":         {script.Test{Expect: []byte(`{"a":1}`)}, `{"a":2}`, nil, `tests[t]: want {"a":1}, got {"a":2}`, script.Script},
		"nothing":         {script.Test{Expect: []byte(`1`)}, ``, nil, `tests[t]: want 1, got null`, script.Script},
		"nothing is null": {script.Test{Expect: []byte(`null`)}, ``, nil, "", ""},
		"a long one": {
			script.Test{Expect: []byte(`{"text":"` + long + `","n":{"m":[1,2]}}`)},
			`{"text":"` + long + `","n":{"m":[1,3]}}`, nil,
			`tests[t]: at n.m[1]: want 2, got 3`, script.Script,
		},
		"an error": {
			script.Test{Expect: []byte(`1`)},
			"", &script.Error{Kind: script.Limit, Field: "limits.instructions", Message: "too many", Line: 3},
			"tests[t]: limits.instructions: too many (line 3)", script.Limit,
		},
		"the error":        {script.Test{Error: script.Limit}, "", &script.Error{Kind: script.Limit, Message: "too many"}, "", ""},
		"another error":    {script.Test{Error: script.Limit}, "", &script.Error{Kind: script.Script, Message: "boom", Line: 2}, "tests[t]: want an error of kind LIMIT, got SCRIPT: boom (line 2)", script.Script},
		"no error":         {script.Test{Error: script.Timeout}, "7", nil, "tests[t]: want an error of kind TIMEOUT, got 7", script.Script},
		"what is no JSON":  {script.Test{Expect: []byte(`1`)}, "}", nil, "tests[t]: the result is no JSON: invalid character '}' looking for beginning of value", script.Script},
		"what cannot last": {script.Test{}, "", &script.Error{Kind: script.Script, Message: long + long}, "tests[t]: " + strings.Repeat("é", 254) + "…", script.Script},
	} {
		t.Run(name, func(t *testing.T) {
			c.test.Name = "t"
			var returned results
			if c.got != "" {
				returned = append(returned, []byte(c.got))
			}
			e := Check(c.test, returned, c.err)
			switch {
			case e == nil && c.want != "":
				t.Errorf("passes, want %s", c.want)
			case e != nil && (e.Error() != c.want || e.Kind != c.kind):
				t.Errorf("%s: %s\nwant %s: %s", e.Kind, e, c.kind, c.want)
			}
		})
	}
}
