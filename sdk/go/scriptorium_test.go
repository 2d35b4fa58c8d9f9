//go:build !wasm

package scriptorium_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	scriptorium "github.com/scriptorium-dev/scriptorium/sdk/go"
)

func TestHandle(t *testing.T) {
	scriptorium.Handle(func(r *scriptorium.Request) (*scriptorium.Decision, error) {
		scriptorium.LogInfo(r.Method)
		user, ok := scriptorium.KVGet("users/" + r.Cookie("user"))
		if !ok {
			return scriptorium.Redirect("/login?to=" + r.Path), nil
		}
		return scriptorium.Allow().Upstream(scriptorium.Config().Get("upstream").Text()).SetHeader("x-plan", user), nil
	})
	host := scriptorium.Host{Config: ` {"upstream":"cart"} `, Values: map[string]string{"users/ann": "pro"}}
	for request, want := range map[string]string{
		` {"method":"GET","path":"/","headers":{"cookie":["a=1; user=ann"]}} `: `{"headers":{"set":{"x-plan":"pro"}},"upstream":"cart"}`,
		`{"method":"GET","path":"/a"}`:                                         `{"redirect":"/login?to=/a"}`,
	} {
		if got := host.Call(request); got != want {
			t.Errorf("%s: got %s, want %s", request, got, want)
		}
	}
	if !slices.Equal(host.Lines, []string{"GET", "GET"}) {
		t.Errorf("it logged %q", host.Lines)
	}
}

// FuzzValue compares with encoding/json.
func FuzzValue(f *testing.F) {
	for _, text := range []string{
		`{}`, ` [ ] `, `{"a":1,"a":[true,false,null, -1.5e+3]}`, `"\ud83d\ude00\ud800x\u00e9\/"`, `{"a" : {"b" : [ {} , 2 ] } }`, `01`, `[1,]`, `{"a"}`, "\"\x01\"",
		`-`, `1.`, `1e`, `"\u12"`, `tru`, `nul`, `[1 2]`, `{"a":1,}`, `"\ud800\ud83d\ude00"`, `"\q"`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := scriptorium.Parse(text)
		if valid := json.Valid([]byte(text)); (err == nil) != valid {
			if depth(text) > 60 {
				return // which Parse refuses
			}
			t.Fatalf("%q: %v, and to encoding/json it is valid: %v", text, err, valid)
		}
		if err != nil {
			return
		}
		var want any
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			return // a number out of range
		}
		if got := decode(v); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %#v, want %#v", text, got, want)
		}
	})
}

func depth(text string) (most int) {
	n := 0
	for _, c := range text {
		switch c {
		case '[', '{':
			n++
			most = max(most, n)
		case ']', '}':
			n--
		}
	}
	return most
}

func decode(v scriptorium.Value) any {
	switch {
	case v.IsNull():
		return nil
	case v.IsText():
		return string([]rune(v.Text())) // what is not UTF-8 becomes U+FFFD
	case v.IsArray():
		all := []any{}
		for _, item := range v.Items() {
			all = append(all, decode(item))
		}
		return all
	case v.IsObject():
		all := map[string]any{}
		for _, m := range v.Members() {
			all[string([]rune(m.Name))] = decode(m.Value)
		}
		return all
	case v.Raw() == "true", v.Raw() == "false":
		return v.Bool()
	}
	return v.Number()
}

func FuzzQuote(f *testing.F) {
	f.Add("a\"\\\n\x00\xff é\U0001F600")
	f.Fuzz(func(t *testing.T, text string) {
		var got string
		if err := json.Unmarshal([]byte(scriptorium.Quote(text)), &got); err != nil || got != strings.ToValidUTF8(text, "\uFFFD") {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	})
}
