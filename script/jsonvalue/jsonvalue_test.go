package jsonvalue_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script/jsonvalue"
)

func decode(tb testing.TB, text string) any {
	tb.Helper()
	v, err := jsonvalue.Decode([]byte(text))
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	return v
}

func encode(tb testing.TB, v any) string {
	tb.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

func TestDifferences(t *testing.T) {
	for _, tt := range []struct {
		from, to string
		want     []string // "pointer from to", with - for a part that is not there
	}{
		{`{"a":1,"b":[true,null]}`, `{"b":[true,null],"a":1.0}`, nil},
		{`null`, `null`, nil},
		{`1e2`, `100`, nil},
		{`"<b>"`, `"<i>"`, []string{` "<b>" "<i>"`}},
		{`{}`, `[]`, []string{` {} []`}},
		{`null`, `{}`, []string{` null {}`}},
		{`"x"`, `["x"]`, []string{` "x" ["x"]`}},
		{`"1"`, `1`, []string{` "1" 1`}},
		{`false`, `null`, []string{` false null`}},
		{`{"a":null}`, `{}`, []string{`/a null -`}},
		{`{}`, `{"a":null}`, []string{`/a - null`}},
		{`{"a/b":{"~":1}}`, `{"a/b":{"~":2}}`, []string{`/a~1b/~0 1 2`}},
		{`{"z":1,"y":1,"x":1}`, `{"z":2,"y":2,"x":1}`, []string{`/y 1 2`, `/z 1 2`}},
		{`[1,2,3]`, `[1,3]`, []string{`/1 2 3`, `/2 3 -`}},
		{`[[]]`, `[[{"a":1}],2]`, []string{`/0/0 - {"a":1}`, `/1 - 2`}},
		{`[1,2,3,4]`, `[5,6,7,8]`, []string{`/0 1 5`, `/1 2 6`, `/2 3 7`, "more"}},
		{`9007199254740993`, `9007199254740992`, []string{` 9007199254740993 9007199254740992`}},
	} {
		parts, more := jsonvalue.Differences(decode(t, tt.from), decode(t, tt.to), 3)
		var got []string
		for _, p := range parts {
			got = append(got, fmt.Sprintf("%s %s %s", p.Pointer, orDash(p.From), orDash(p.To)))
		}
		if more {
			got = append(got, "more")
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("from %s to %s: %q, want %q", tt.from, tt.to, got, tt.want)
		}
	}
}

func orDash(raw json.RawMessage) string {
	if raw == nil {
		return "-"
	}
	return string(raw)
}

func TestPointers(t *testing.T) {
	for _, tt := range []struct{ value, pointer, set, deleted string }{
		{`{"a":{"b":1},"c":2}`, "/a/b", `{"a":{"b":"***"},"c":2}`, `{"a":{},"c":2}`},
		{`{"a":[1,2,3]}`, "/a/1", `{"a":[1,"***",3]}`, `{"a":[1,3]}`},
		{`{"a/b":{"~1":0}}`, "/a~1b/~01", `{"a/b":{"~1":"***"}}`, `{"a/b":{}}`},
		{`{"a":1}`, "/a", `{"a":"***"}`, `{}`},
		{`{"a":1}`, "", `"***"`, `{"a":1}`},
		{`{"a":1}`, "/b", `{"a":1}`, `{"a":1}`},
		{`{"a":1}`, "/a/b", `{"a":1}`, `{"a":1}`},
		{`[1]`, "/1", `[1]`, `[1]`},
		{`[1]`, "/-1", `[1]`, `[1]`},
		{`[1]`, "/x", `[1]`, `[1]`},
		{`[[1]]`, "/0/0", `[["***"]]`, `[[]]`},
		{`{"":1}`, "/", `{"":"***"}`, `{}`},
	} {
		set, changed := jsonvalue.Set(decode(t, tt.value), tt.pointer, "***")
		if got := encode(t, set); got != tt.set || changed != (tt.set != tt.value) {
			t.Errorf("set %q of %s: %s (%t), want %s", tt.pointer, tt.value, got, changed, tt.set)
		}
		if got := encode(t, jsonvalue.Delete(decode(t, tt.value), tt.pointer)); got != tt.deleted {
			t.Errorf("delete %q of %s: %s, want %s", tt.pointer, tt.value, got, tt.deleted)
		}
	}
}

func FuzzDifferences(f *testing.F) {
	f.Add(`{"a":[1,2.50,{"b":null}],"c":"x"}`, `{"a":[1],"~/":{}}`)
	f.Add(`[[[]]]`, `-0.00e-3`)
	f.Fuzz(func(t *testing.T, from, to string) {
		a, errFrom := jsonvalue.Decode([]byte(from))
		b, errTo := jsonvalue.Decode([]byte(to))
		if errFrom != nil || errTo != nil {
			return
		}
		if parts, more := jsonvalue.Differences(a, a, 5); len(parts) > 0 || more {
			t.Errorf("%s differs from itself: %+v", from, parts)
		}
		there, _ := jsonvalue.Differences(a, b, 1000)
		back, _ := jsonvalue.Differences(b, a, 1000)
		if len(there) != len(back) {
			t.Fatalf("%d parts differ, and %d the other way round", len(there), len(back))
		}
		for i, p := range there {
			if q := back[i]; p.Pointer != q.Pointer || string(p.From) != string(q.To) || string(p.To) != string(q.From) {
				t.Errorf("%+v, and the other way round %+v", p, q)
			}
			if _, found := jsonvalue.Set(a, p.Pointer, "x"); found != (p.From != nil) && p.From != nil {
				t.Errorf("%q of %s is not found", p.Pointer, from)
			}
		}
	})
}
