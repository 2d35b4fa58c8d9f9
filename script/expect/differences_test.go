package expect

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script/jsonvalue"
)

// TestDifferences: the differences agree with Check, and name each part.
func TestDifferences(t *testing.T) {
	for _, c := range []struct{ want, got, differ string }{
		{`{}`, `{"a":1}`, ""},
		{`{"a":1,"b":{"c":2}}`, `{"a":1,"b":{"c":2,"d":3}}`, ""},
		{`{"a":1,"b":{"c":2}}`, `{"a":2,"b":{"c":3}}`, "/a /b/c"},
		{`{"a":null}`, `{}`, ""},
		{`{"a":null}`, `{"a":1}`, "/a"},
		{`{"a":1}`, `{}`, "/a"},
		{`{"a":{"b":1}}`, `{"a":[1]}`, "/a"},
		{`[1,{"a":1}]`, `[1,{"a":1,"b":2}]`, ""},
		{`[1]`, `[1,2]`, "/1"},
		{`[1,2]`, `[1]`, "/1"},
		{`1`, `1.0`, ""},
		{`null`, `0`, "-"},
	} {
		decoded := func(text string) any {
			v, err := jsonvalue.Decode([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		parts, more := Differences(decoded(c.want), decoded(c.got), 10)
		var pointers []string
		for _, p := range parts {
			pointers = append(pointers, p.Pointer)
		}
		want := strings.Fields(c.differ)
		if c.differ == "-" { // the whole
			want = []string{""}
		}
		if strings.Join(pointers, " ") != strings.Join(want, " ") || len(pointers) != len(want) || more {
			t.Errorf("%s with %s: %q differ, want %q", c.want, c.got, pointers, want)
		}
		if d, err := match([]byte(c.want), []byte(c.got)); err != nil || (d == nil) != (len(parts) == 0) {
			t.Errorf("%s with %s: match finds %+v, %v", c.want, c.got, d, err)
		}
	}
}
