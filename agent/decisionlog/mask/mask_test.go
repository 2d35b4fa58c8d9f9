package mask_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/mask"
)

func apply(tb testing.TB, masks, keep []string, value string) (out, masked string) {
	tb.Helper()
	var m mask.Masker
	m.Reset(mask.NewPaths(masks))
	to, kept, err := m.Append([]byte("before"), []byte(value), "/input", mask.NewPaths(keep))
	if err != nil {
		return "error", ""
	}
	if kept {
		out = strings.TrimPrefix(string(to), "before")
	} else if string(to) != "before" {
		tb.Errorf("%s: nothing is kept, and yet there is %s", value, to)
	}
	if out != "" && !json.Valid([]byte(out)) {
		tb.Errorf("%s: %s is not JSON", value, out)
	}
	list, _ := m.AppendMasked(nil)
	if !json.Valid(append(append([]byte{'['}, list...), ']')) {
		tb.Errorf("%s: %s are no pointers", value, list)
	}
	return out, string(list)
}

func TestMasks(t *testing.T) {
	for _, tt := range []struct {
		masks, value, out, masked string
	}{
		{"headers.authorization body", `{"headers":{"authorization":"a","host":"h"},"body":"b","n":1}`, `{"headers":{"authorization":"***","host":"h"},"body":"***","n":1}`, `"/input/headers/authorization","/input/body"`},
		{"headers.authorization", `{ "Headers" : { "AUTHORIZATION" : [ "a", "b" ] } }`, `{"Headers":{"AUTHORIZATION":"***"}}`, `"/input/Headers/AUTHORIZATION"`},
		{"headers.authorization", `{"headers":{"\u0061uthorization":"a"}}`, `{"headers":{"authorization":"***"}}`, `"/input/headers/authorization"`},
		{"headers.authorization", `{"headers":{"authorization ":"a","author\u0131zation":"b","authoriſation":"c"}}`, `{"headers":{"authorization ":"***","authorızation":"b","authoriſation":"c"}}`, `"/input/headers/authorization "`},
		{"headers.cookies", `{"headers":{"cooKies":"a"}}`, `{"headers":{"cooKies":"***"}}`, `"/input/headers/cooKies"`}, // a Kelvin sign
		{"body", `{"body":"a","body":"b","x":{"body":"c"}}`, `{"body":"***","body":"***","x":{"body":"c"}}`, `"/input/body","/input/body"`},
		{"headers.*", `{"headers":{"a":"1","b":["2"]}}`, `{"headers":{"a":"***","b":"***"}}`, `"/input/headers/a","/input/headers/b"`},
		{"*.a", `{"x":{"a":1,"b":2},"y":{"A":3},"a":4}`, `{"x":{"a":"***","b":2},"y":{"A":"***"},"a":4}`, `"/input/x/a","/input/y/A"`},
		{"*", `{"x":1}`, `{"x":"***"}`, `"/input/x"`},
		{"*", `["x",[1]]`, `["***","***"]`, `"/input/0","/input/1"`},
		{"items.*.card", `{"items":[{"card":1,"n":2},{"card":[3]}]}`, `{"items":[{"card":"***","n":2},{"card":"***"}]}`, `"/input/items/0/card","/input/items/1/card"`},
		{"items.card", `{"items":[{"card":1},[[{"card":2,"x":3}]]],"card":4}`, `{"items":[{"card":"***"},[[{"card":"***","x":3}]]],"card":4}`, `"/input/items/0/card","/input/items/1/0/0/card"`},
		{"items.card items.*.pin", `{"items":[{"card":1,"pin":2}],"b":{"card":1}}`, `{"items":[{"card":"***","pin":"***"}],"b":{"card":1}}`, `"/input/items/0/card","/input/items/0/pin"`},
		{"a.b.c", `{"a":{"b":{"c":1,"d":2}},"b":{"c":3}}`, `{"a":{"b":{"c":"***","d":2}},"b":{"c":3}}`, `"/input/a/b/c"`},
		{"a.b", `{"a":null,"a":1,"a":true,"a":{}}`, `{"a":null,"a":1,"a":true,"a":{}}`, ``},
		// A number hides items as a whole, whether it is meant as an index or as a name in them.
		{"items.0.card", `{"items":[{"card":1},{"0":{"card":2}}],"0":3}`, `{"items":["***","***"],"0":3}`, `"/input/items/0","/input/items/1"`},
		{"items.1", `{"items":[1,2]}`, `{"items":["***","***"]}`, `"/input/items/0","/input/items/1"`},
		{"codes.404", `{"codes":{"404":1,"200":2}}`, `{"codes":{"404":"***","200":2}}`, `"/input/codes/404"`},
		// Names with dots.
		{"user.email", `{"user.email":1,"User.Email":2,"user.name":3,"user":{"email":4},"a.user.email":5}`, `{"user.email":"***","User.Email":"***","user.name":3,"user":{"email":"***"},"a.user.email":5}`, `"/input/user.email","/input/User.Email","/input/user/email"`},
		{"body.user.*.card", `{"body":[{"user.7.card":1,"user.7":{"x":2},"user":3}]}`, `{"body":[{"user.7.card":"***","user.7":"***","user":3}]}`, `"/input/body/0/user.7.card","/input/body/0/user.7"`},
		{"query.user.email", `{"query":"user.email=x&a.b=c"}`, `{"query":"user.email=***&a.b=c"}`, `"/input/query/user.email"`},
		// JSON in texts.
		{"body.password", `{"body":"[1,{\"a\":[2,"}`, `{"body":"***"}`, `"/input/body"`},
		{"body.password", `{"body":"{\"password\":\"x\",\"user\":\"ü\"}"}`, `{"body":"{\"password\":\"***\",\"user\":\"ü\"}"}`, `"/input/body/password"`},
		{"body.password", `{"body":"\uFEFF {\"p\\u0061ssword\":1}"}`, `{"body":"{\"password\":\"***\"}"}`, `"/input/body/password"`},
		{"body.password", `{"body":"\"{\\\"password\\\":1}\""}`, `{"body":"\"{\\\"password\\\":\\\"***\\\"}\""}`, `"/input/body/password"`},
		{"body.password", `{"body":"password=x"}`, `{"body":"***"}`, `"/input/body"`},
		{"body.password", `{"body":"{\"a\":{\"password\":1}} trailing"}`, `{"body":"***"}`, `"/input/body"`},
		{"body.password", `{"body":"[{\"password\":1}]"}`, `{"body":"[{\"password\":\"***\"}]"}`, `"/input/body/0/password"`},
		{"headers.authorization", `"{\"headers\":{\"authorization\":\"a\"}}"`, `"{\"headers\":{\"authorization\":\"***\"}}"`, `"/input/headers/authorization"`},
		{"headers.authorization", `"alice"`, `"alice"`, ``},
		{"headers.authorization", `"data: {\"headers\""`, `"***"`, `"/input"`},
		{"headers.cookie.session", `{"headers":{"cookie":"session=1"}}`, `{"headers":{"cookie":"***"}}`, `"/input/headers/cookie"`},
		// Query strings.
		{"query.token", `{"query":"a=1&token=x&TOKEN&%74oken=y;token[]=z&b"}`, `{"query":"a=1&token=***&TOKEN=***&%74oken=***;token[]=***&b"}`, `"/input/query/token","/input/query/TOKEN","/input/query/token","/input/query/token"`},
		{"query.token", `{"query":{"token":"x"}}`, `{"query":{"token":"***"}}`, `"/input/query/token"`},
		{"query.token", `{"query":"a=1"}`, `{"query":"a=1"}`, ``},
		{"query.token", `{"query":" {\"token\":\"x\",\"a\":1}"}`, `{"query":"{\"token\":\"***\",\"a\":1}"}`, `"/input/query/token"`},
		{"query.token", `{"query":"[{\"token\":\"x\"}"}`, `{"query":"***"}`, `"/input/query"`},
		{"query", `{"query":"a=1"}`, `{"query":"***"}`, `"/input/query"`},
		// Pointers.
		{"*.x", `{"a/b~\"":{"x":1}}`, `{"a/b~\"":{"x":"***"}}`, `"/input/a~1b~0\"/x"`},
		{"x", `[1,{"x":1}]`, `[1,{"x":"***"}]`, `"/input/1/x"`},
	} {
		if out, masked := apply(t, strings.Fields(tt.masks), nil, tt.value); out != tt.out || masked != tt.masked {
			t.Errorf("%s of %s:\n%s %s, want\n%s %s", tt.masks, tt.value, out, masked, tt.out, tt.masked)
		}
	}
}

func TestKeeps(t *testing.T) {
	for _, tt := range []struct {
		masks, keep, value, out, masked string
	}{
		{"", "headers.host path", `{"headers":{"host":"h","x":1},"path":"/","body":"b"}`, `{"headers":{"host":"h"},"path":"/"}`, ""},
		{"", "a.b", `{"a":{"c":1},"d":[]}`, "", ""},
		{"", "a.b", `{"a":"text","a":1}`, "", ""},
		{"", "a.b", `"text"`, "", ""},
		{"", "a.b", `[]`, "", ""},
		{"", "items.n", `{"items":[1,{"n":1,"x":2},{"x":3}]}`, `{"items":[{"n":1}]}`, ""},
		{"", "items.*.n", `{"items":[1,{"n":1,"x":2},{"x":3}]}`, `{"items":[{"n":1}]}`, ""},
		{"headers.a", "headers", `{"headers":{"a":1,"b":2},"c":3}`, `{"headers":{"a":"***","b":2}}`, `"/input/headers/a"`},
		{"headers", "headers.a", `{"headers":{"a":1,"b":2},"c":3}`, `{"headers":"***"}`, `"/input/headers"`},
		{"", "a.b items.0", `{"a.b":1,"a.c":2,"items":[3,{"0":4}]}`, `{"a.b":1,"items":[{"0":4}]}`, ``},
		{"", "a.b.c", `{"a.b":{"c":1,"d":2}}`, "", ``},
		{"body", "headers", `{"headers":{"a":1},"body":3}`, `{"headers":{"a":1}}`, ``},
	} {
		if out, masked := apply(t, strings.Fields(tt.masks), strings.Fields(tt.keep), tt.value); out != tt.out || masked != tt.masked {
			t.Errorf("%s and %s of %s:\n%s %s, want\n%s %s", tt.masks, tt.keep, tt.value, out, masked, tt.out, tt.masked)
		}
	}
}

func TestNotJSON(t *testing.T) {
	for _, value := range []string{
		"", " ", "{", "[", "[1", "[1,", "[1,]", "{,}", `{"a"}`, `{"a":}`, `{"a":1,}`, `{a:1}`, "01", "-", "1.", "1e", "+1", "tru", "nul", `"a`, `"\x"`, `"\u12"`, "\"\n\"",
		"1 2", `{} {}`, strings.Repeat("[", 100) + strings.Repeat("]", 100), "NaN", "'a'",
	} {
		if out, _ := apply(t, []string{"a"}, nil, value); out != "error" {
			t.Errorf("%q became %s", value, out)
		}
	}
}

// TestCopies: what a script made of a masked value is masked, too.
func TestCopies(t *testing.T) {
	const secret = "Bearer s3cr3t-t0ken"
	var m mask.Masker
	m.Reset(mask.NewPaths([]string{"headers.authorization", "pin", "body"}))
	input := `{"headers":{"authorization":"` + secret + `"},"pin":4711,"body":"{\"card\":\"4111222233334444\",\"n\":\"x\\u00fcyzzyxyzzy\"}","path":"/a"}`
	if _, _, err := m.Append(nil, []byte(input), "/input", nil); err != nil {
		t.Fatal(err)
	}
	for result, want := range map[string]string{
		`"s3cr3t-t0ken"`:                          `"***"`,
		`{"a":"x s3cr3t-t0 y","path":"/a"}`:       `{"a":"***","path":"/a"}`,
		`{"s3cr3t-t0ken":1}`:                      `{"***":1}`,
		`["\u0073\u0033cr3t-t0ken"]`:              `["***"]`,
		`[4111222233334444,4711,47,"x4711"]`:      `["***","***",47,"***"]`,
		`"s3cr3t"`:                                `"s3cr3t"`, // of no use to anybody
		`{"route":"blue","headers":{"a":"b"}}`:    `{"route":"blue","headers":{"a":"b"}}`,
		`{"b":"{\"card\":\"4111222233334444\"}"}`: `{"b":"***"}`,
	} {
		if got := m.Scrub([]byte(result), 0, "/result"); string(got) != want {
			t.Errorf("%s became %s, want %s", result, got, want)
		}
	}
	list, _ := m.AppendMasked(nil)
	if bytes.Contains(list, []byte("s3cr3t")) {
		t.Errorf("the pointers have it: %s", list)
	}
	for text, want := range map[string]bool{"token \"s3cr3t-t0ken\" is bad": true, "pin 4711": true, "no": false, "attempt to index a nil value": false} {
		if m.Leaks(text) != want {
			t.Errorf("%q: leaks is not %v", text, want)
		}
	}
}

// TestCopiesOfParts: what a script reads out of a masked text is a copy, too, however the text wrote it.
func TestCopiesOfParts(t *testing.T) {
	many := `{"pins":["0000"`
	for i := range 200 {
		many += fmt.Sprintf(`,"%04d"`, i)
	}
	for _, tt := range []struct {
		masks, input, text string
		leaks              bool
	}{
		{"pins", many + `]}`, "pin 0199", true},
		{"pins", many + `]}`, "pin 0200", false},
		{"pin", `{"pin":"12345"}`, "no 12345", true},
		{"body", `{"body":"{\"password\":\"\\u65e5\\u672c\\u8a9e\"}"}`, "no user 日本語", true},
		{"body", `{"body":"[\"a\\tb\\tc\\td\\te\", {"}`, "a\tb\tc\td\te", true},
		{"body", `{"body":"{\"path\":\"\\u002f\"}"}`, "no path", false},
		{"body", `{"body":"user=a&password=p%40s%24w%25de"}`, "p@s$w%de is bad", true},
		{"query.token", `{"query":"?token=12345678"}`, "12345678", true},
		{"body.x", `{"body":"\"\\u0041BCDEFGH"}`, "ABCDEFGH", false}, // no JSON
	} {
		var m mask.Masker
		m.Reset(mask.NewPaths(strings.Fields(tt.masks)))
		out, _, err := m.Append(nil, []byte(tt.input), "/input", nil)
		if err != nil || m.Leaks(tt.text) != tt.leaks {
			t.Errorf("%s: %s, %v: leaks %q is not %v", tt.input, out, err, tt.text, tt.leaks)
		}
	}
}

// TestAfterAnError: nothing stays of a value that is no JSON.
func TestAfterAnError(t *testing.T) {
	for _, broken := range []string{`{"query" 1`, `{"query":`, `[[[`, `{"a":"{\"query\"`, `{"a":"[1,{\"query\" 2"`} {
		var m mask.Masker
		m.Reset(mask.NewPaths([]string{"query.token", "a.b"}))
		if _, _, err := m.Append(nil, []byte(broken), "/input", nil); err == nil && broken[2] != 'a' {
			t.Errorf("%s is JSON", broken)
		}
		m.Reset(mask.NewPaths([]string{"token"}))
		out, _, err := m.Append(nil, []byte(`"{\"token\":\"s3cr3t\"}"`), "/input", nil)
		if err != nil || bytes.Contains(out, []byte("s3cr3t")) {
			t.Errorf("after %s: %s, %v", broken, out, err)
		}
	}
}

// TestPlain: without masks, a value stays what it is.
func TestPlain(t *testing.T) {
	for _, value := range []string{
		`{"a":[1,-2.5e+10,true,false,null,{}],"b":[],"c":"ü\u00e9\n\ud83d\ude00\ud83d"}`, ` [ 0 , "" ] `, `12345678901234567890`, "\"\xff\"",
	} {
		out, masked := apply(t, nil, nil, value)
		var got, want any
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(value), &want); err != nil || !reflect.DeepEqual(got, want) || masked != "" {
			t.Errorf("%s became %s", value, out)
		}
	}
}

func TestManyPointers(t *testing.T) {
	var m mask.Masker
	m.Reset(mask.NewPaths([]string{"*"}))
	value := []byte("[1" + strings.Repeat(",1", 99) + "]")
	if _, _, err := m.Append(nil, value, "/input", nil); err != nil {
		t.Fatal(err)
	}
	if list, all := m.AppendMasked(nil); all || bytes.Count(list, []byte(",")) != 31 {
		t.Errorf("all: %v, %s", all, list)
	}
}

// canary is what no record may have.
const canary = "CANARY-b7e1"

// hostile makes values with the canary at masked paths, in many disguises.
type hostile struct{ *rand.Rand }

var masked = []string{"headers.authorization", "headers.x-*", "body", "query.token", "items.*.card", "deep.a.b", "form.password"}

func (h hostile) pick(of ...string) string { return of[h.IntN(len(of))] }

// name returns the name as JSON, in one of the ways in which JSON and people write it.
func (h hostile) name(name string) string {
	var b strings.Builder
	for _, c := range name {
		if h.IntN(4) == 0 {
			c ^= 0x20
			if c|0x20 < 'a' || c|0x20 > 'z' {
				c ^= 0x20
			}
		}
		if h.IntN(5) == 0 {
			fmt.Fprintf(&b, `\u%04x`, c)
		} else {
			b.WriteRune(c)
		}
	}
	return `"` + h.pick("", "", " ") + b.String() + h.pick("", "", " ") + `"`
}

func (h hostile) secret(depth int) string {
	if depth > 2 {
		return `"` + canary + `"`
	}
	switch h.IntN(5) {
	case 0:
		return "[" + h.secret(depth+1) + "," + h.secret(depth+1) + "]"
	case 1:
		return `{"a":` + h.secret(depth+1) + `}`
	case 2:
		return `"\u0043ANARY-b7e1 \n more"`
	case 3:
		return h.text(h.secret(depth + 1))
	}
	return `"` + canary + `"`
}

// text returns a JSON text with the value in it.
func (h hostile) text(value string) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (h hostile) maybeText(value string) string {
	if h.IntN(3) == 0 {
		return h.text(h.pick("", " ", "\uFEFF") + value)
	}
	return value
}

func (h hostile) value() string {
	var members []string
	add := func(name, value string) { members = append(members, h.name(name)+h.pick(":", " : ")+value) }
	for range 1 + h.IntN(6) {
		switch h.IntN(9) {
		case 0:
			add("headers", h.maybeText(`{`+h.name("authorization")+`:`+h.secret(0)+`,"host":"h"}`))
		case 1:
			add("body", h.secret(0))
		case 2:
			add("query", h.text("a=1&"+h.pick("token", "TOKEN", "%74oken", "token[]", "t%6fken[x]")+"="+canary+h.pick("", "&b", ";c=d")))
		case 3:
			add("items", h.maybeText(`[1,{`+h.name("card")+`:`+h.secret(0)+`},{"n":2}]`))
		case 4:
			add("deep", h.maybeText(`{`+h.name("a")+`:`+h.maybeText(`{`+h.name("b")+`:`+h.secret(0)+`}`)+`}`))
		case 5:
			add("form", h.pick(h.text("password="+canary), `[[{"password":"`+canary+`"}]]`, h.text("<password>"+canary)))
		case 6:
			add("open", `["a",{"b":null}]`)
		case 7:
			add("query", `{`+h.name("token")+`:`+h.secret(0)+`}`)
		case 8:
			add("items", `{"x":{`+h.name("card")+`:`+h.secret(0)+`}}`)
		}
	}
	value := "{" + strings.Join(members, h.pick(",", " , ")) + "}"
	for range h.IntN(3) {
		value = h.maybeText(value)
	}
	return value
}

// TestCanary: the canary is in nothing that comes out, whatever way it went in.
func TestCanary(t *testing.T) {
	seed := rand.Uint64()
	h := hostile{rand.New(rand.NewPCG(seed, 1))}
	var m mask.Masker
	paths := mask.NewPaths(masked)
	for range 20_000 {
		value := h.value()
		if !json.Valid([]byte(value)) {
			t.Fatalf("the test made %s", value)
		}
		m.Reset(paths)
		out, _, err := m.Append(nil, []byte(value), "/input", nil)
		list, _ := m.AppendMasked(nil)
		result := m.Scrub([]byte(h.pick(`"`+canary+`"`, `{"x":["my `+canary+`"]}`, `{"CANARY-b7e1":1}`)), 0, "/result")
		all := string(out) + string(list)
		if strings.Contains(value, "b7e1") {
			all += string(result)
		}
		if err != nil || strings.Contains(all, "CANARY") || strings.Contains(all, "b7e1") {
			t.Fatalf("seed %d: %s\nbecame %s\n%s\n%s, %v", seed, value, out, list, result, err)
		}
	}
}

// FuzzAppend: what is JSON stays JSON, and nothing else becomes it.
func FuzzAppend(f *testing.F) {
	h := hostile{rand.New(rand.NewPCG(1, 2))}
	for range 20 {
		f.Add(h.value())
	}
	f.Add(`{"a":"\ud83d\ude00","b":[1e5]}`)
	paths := mask.NewPaths(masked)
	f.Fuzz(func(t *testing.T, value string) {
		var m mask.Masker
		for _, p := range []*mask.Paths{nil, paths} {
			m.Reset(p)
			out, kept, err := m.Append(nil, []byte(value), "/input", nil)
			if err != nil {
				if json.Valid([]byte(value)) && strings.Count(value, "[")+strings.Count(value, "{") < 60 {
					t.Fatalf("%q: %v", value, err)
				}
				continue
			}
			if !json.Valid([]byte(value)) || !kept || !json.Valid(out) || bytes.ContainsAny(out, "\n\r") {
				t.Fatalf("%q became %q", value, out)
			}
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	value := []byte(`{"method":"GET","host":"shop.example","path":"/cart/7","query":"a=1","headers":{"accept":"*/*","authorization":"Bearer abcdefghijklmnopqrstuvwxyz","user-agent":"curl/8.5.0"},"params":{}}`)
	for name, paths := range map[string]*mask.Paths{"none": nil, "two": mask.NewPaths([]string{"headers.authorization", "body"})} {
		b.Run(name, func(b *testing.B) {
			var m mask.Masker
			var out []byte
			b.ReportAllocs()
			b.SetBytes(int64(len(value)))
			for b.Loop() {
				m.Reset(paths)
				out, _, _ = m.Append(out[:0], value, "/input", nil)
			}
		})
	}
}

func BenchmarkValid(b *testing.B) {
	value := []byte(`{"method":"GET","host":"shop.example","path":"/cart/7","query":"a=1","headers":{"accept":"*/*","authorization":"Bearer abcdefghijklmnopqrstuvwxyz","user-agent":"curl/8.5.0"},"params":{}}`)
	for b.Loop() {
		json.Valid(value)
	}
}
