package decision_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestParse(t *testing.T) {
	denied := func(status int) decision.Decision { return decision.Decision{Status: status} }
	sets := func(headers ...decision.Header) decision.Changes { return decision.Changes{Set: headers} }
	for _, tt := range []struct {
		result string
		want   decision.Decision
	}{
		{``, decision.Allowed},
		{`null`, decision.Allowed},
		{`true`, decision.Allowed},
		{`{}`, decision.Allowed},
		{` { "allow" : true , "metadata" : { "A" : null , "a" : "\"allow\":" } } `, decision.Decision{Allow: true, Metadata: json.RawMessage(`{ "A" : null , "a" : "\"allow\":" }`)}},
		{`false`, denied(403)},
		{`{"allow":false}`, denied(403)},
		{`{"allow":false,"status":200,"body":"hi"}`, decision.Decision{Status: 200, Body: "hi"}},
		{`{"allow":false,"status":204}`, denied(204)},
		{`{"redirect":"https://shop.example/login?to=%2F#top"}`, decision.Decision{Status: 302, Response: sets(decision.Header{"location", "https://shop.example/login?to=%2F#top"})}},
		{`{"redirect":"/new","status":308}`, decision.Decision{Status: 308, Response: sets(decision.Header{"location", "/new"})}},
		{`{"headers":{"set":{"X-User":"ann","x-n":3},"remove":["Cookie"]}}`, decision.Decision{Allow: true, Request: decision.Changes{
			Set: []decision.Header{{"x-user", "ann"}, {"x-n", "3"}}, Remove: []string{"cookie"},
		}}},
		{`{"headers":{"set":{"x-tag":["a","b"]},"append":{"x-tag":"c"},"remove":{}}}`, decision.Decision{Allow: true, Request: decision.Changes{
			Set: []decision.Header{{"x-tag", "a"}}, Append: []decision.Header{{"x-tag", "b"}, {"x-tag", "c"}},
		}}},
		{`{"upstream":"canary:8080","path":"/v2/cart","query":"","metadata":{"a":[1]}}`, decision.Decision{
			Allow: true, Upstream: "canary:8080", Path: new("/v2/cart"), Query: new(""), Metadata: json.RawMessage(`{"a":[1]}`),
		}},
		{`{"cookies":[{"name":"s","value":"1","max_age":60}],"vary":["X-User"]}`, decision.Decision{Allow: true, Response: decision.Changes{
			Append: []decision.Header{{"set-cookie", "s=1; Path=/; Max-Age=60; HttpOnly; Secure; SameSite=Lax"}, {"vary", "x-user"}},
		}}},
		{`{"allow":false,"status":429,"rate_limit":{"limit":10,"remaining":0,"reset":7}}`, decision.Decision{Status: 429, Response: sets(
			decision.Header{"ratelimit-limit", "10"}, decision.Header{"ratelimit-remaining", "0"}, decision.Header{"ratelimit-reset", "7"}, decision.Header{"retry-after", "7"},
		)}},
	} {
		text := []byte(tt.result)
		got, err := decision.Parse(text)
		clear(text) // the caller uses it again
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, %v\nwant %+v", tt.result, got, err, tt.want)
		}
	}
}

// TestParseRefuses: what is not understood lets nothing through, and the error names the member.
func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ result, field string }{
		{`{"alow":false}`, "alow"},
		{`{"allow":"false"}`, "allow"},
		{`{"allow":0}`, "allow"},
		{`{"headers":{"sets":{}}}`, "sets"},
		{`{"allow":false,"ALLOW":true}`, "ALLOW"},
		{`{"Allow":true}`, "Allow"},
		{`{"allow":false,"allow":true}`, "allow"},
		{`{"allow":false,"allow":null}`, "allow"},
		{`{"\u0061llow":false,"allow":true}`, `\u0061llow`},
		{`{"allow":null}`, "allow"},
		{`{"redirect" : null}`, "redirect"},
		{`{"redirect":"/login","REDIRECT":null}`, "REDIRECT"},
		{`{"reſtatus":1}`, ""},
		{`{"ſtatus":403,"allow":false}`, "ſtatus"},
		{`{"headers":{"set":{"x":"1"}},"headers":{"remove":["x"]}}`, "headers"},
		{`{"headers":{"remove":["x"],"Remove":[]}}`, "Remove"},
		{`{"headers":{"remove":["x"],"remove":[]}}`, "remove"},
		{`{"headers":{"remove":null}}`, "remove"},
		{`{"cookies":[{"name":"a","value":"1","secure":true,"SECURE":false}]}`, "SECURE"},
		{`{"cookies":[{"name":"a","value":"1","http_only":null}]}`, "http_only"},
		{`{"rate_limit":{"limit":1,"limit":2}}`, "limit"},
		{`{"headers":{"set":{"x":null}}}`, ""},
		{`{"headers":{"remove":[null]}}`, ""},
		{`{"vary":[null]}`, ""},
		{`{"cookies":[null]}`, ""},
		{`"deny"`, ""},
		{`[]`, ""},
		{`[{"allow":false}]`, ""},
		{`7`, ""},
		{`{"allow":false}{}`, ""},
		{`{"status":403}`, "status"},
		{`{"body":"no"}`, "body"},
		{`{"allow":true,"status":403}`, "status"},
		{`{"allow":false,"status":99}`, "status"},
		{`{"allow":false,"status":101}`, "status"},
		{`{"allow":false,"status":600}`, "status"},
		{`{"allow":false,"status":403.5}`, "status"},
		{`{"allow":false,"status":204,"body":"x"}`, "body"},
		{`{"allow":true,"redirect":"/x"}`, "redirect"},
		{`{"redirect":"/x","status":200}`, "status"},
		{`{"redirect":"/x\r\nset-cookie: a=b"}`, "redirect"},
		{`{"redirect":""}`, "redirect"},
		{`{"headers":{"set":{"x y":"1"}}}`, "headers.set"},
		{`{"headers":{"set":{"":"1"}}}`, "headers.set"},
		{`{"headers":{"set":{"x-user":"a\r\nx-admin: 1"}}}`, "headers.set"},
		{`{"headers":{"set":{"x-user":"a\u0000"}}}`, "headers.set"},
		{`{"headers":{"set":{"Host":"evil"}}}`, "headers.set"},
		{`{"headers":{"append":{"Content-Length":"1"}}}`, "headers.append"},
		{`{"headers":{"remove":["Transfer-Encoding"]}}`, "headers.remove"},
		{`{"response_headers":{"set":{"X-Accel-Redirect":"/secret"}}}`, "response_headers.set"},
		{`{"headers":{"set":{"Scriptorium-Upstream":"x"}}}`, "headers.set"},
		{`{"headers":{"set":{"x":true}}}`, "headers.set"},
		{`{"headers":[]}`, "headers"},
		{`{"upstream":""}`, "upstream"},
		{`{"upstream":"a b"}`, "upstream"},
		{`{"path":"admin"}`, "path"},
		{`{"path":"//evil.example/"}`, "path"},
		{`{"path":"/a?b=1"}`, "path"},
		{`{"path":"/a b"}`, "path"},
		{`{"path":"/ü"}`, "path"},
		{`{"query":"a=1 HTTP/1.1"}`, "query"},
		{`{"cookies":[{"name":"a b","value":"1"}]}`, "cookies"},
		{`{"cookies":[{"name":"a","value":"1;x"}]}`, "cookies"},
		{`{"cookies":[{"name":"a","value":"1","same_site":"none","secure":false}]}`, "cookies.same_site"},
		{`{"cookies":[{"name":"a","value":"1","samesite":"x"}]}`, ""},
		{`{"rate_limit":{"limit":-1}}`, "rate_limit"},
		{`{"vary":["a b"]}`, "vary"},
		{`{"metadata":[1]}`, "metadata"},
		{`{"metadata":"x"}`, "metadata"},
		{`{"metadata":{"x":"` + strings.Repeat("x", 17<<10) + `"}}`, "metadata"},
		{`{"headers":{"set":{"x":"` + strings.Repeat("x", 17<<10) + `"}}}`, "headers.set"},
		{`{"headers":{"remove":["a"` + strings.Repeat(`,"a"`, 64) + `]}}`, "headers.remove"},
	} {
		d, err := decision.Parse([]byte(tt.result))
		if err == nil {
			t.Errorf("%.100s: %+v", tt.result, d)
			continue
		}
		e := script.AsError(err)
		if e.Kind != script.Invalid || tt.field != "" && e.Field != tt.field {
			t.Errorf("%.100s: kind %s, field %q, %v; want field %q", tt.result, e.Kind, e.Field, err, tt.field)
		}
		for _, fail := range []decision.Fail{decision.FailClosed, decision.FailOpen} {
			instead := fail.Instead(script.OnError{}, err)
			if instead.Allow != (fail == decision.FailOpen) || !instead.Allow && instead.Status != http.StatusServiceUnavailable {
				t.Errorf("%.100s: instead %+v", tt.result, instead)
			}
		}
	}
}

// FuzzParse: whatever a script returns, a decision has nothing that a gateway could stumble over.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		``, `false`, `{"allow":false,"status":401,"body":"no","response_headers":{"set":{"www-authenticate":"Basic"}}}`,
		`{"redirect":"/login","cookies":[{"name":"a","value":"b"}]}`, `{"headers":{"set":{"x-a":["1",2]},"append":{"x-b":"c"},"remove":["x-c"]}}`,
		`{"path":"/a%20b","query":"a=1&b","upstream":"app","metadata":{},"vary":["x-a"],"rate_limit":{"limit":1,"remaining":0,"reset":3}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := decision.Parse(text)
		if err != nil {
			if script.KindOf(err) != script.Invalid {
				t.Errorf("%v", err)
			}
			return
		}
		if d.Allow && (d.Status != 0 || d.Body != "") || !d.Allow && (d.Status < 200 || d.Status > 599) {
			t.Errorf("allow %v with status %d and body %q", d.Allow, d.Status, d.Body)
		}
		for _, c := range []decision.Changes{d.Request, d.Response} {
			for _, h := range append(c.Set, c.Append...) {
				if h.Name != strings.ToLower(h.Name) || !httpguts.ValidHeaderFieldName(h.Name) || !httpguts.ValidHeaderFieldValue(h.Value) {
					t.Errorf("header %q: %q", h.Name, h.Value)
				}
			}
		}
		for _, part := range []*string{d.Path, d.Query} {
			if part != nil && strings.ContainsAny(*part, " \r\n\x00#") {
				t.Errorf("target %q", *part)
			}
		}
		if d.Metadata != nil && !json.Valid(d.Metadata) {
			t.Errorf("metadata %q", d.Metadata)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	text := []byte(`{"headers":{"set":{"x-user":"ann"}}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decision.Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}
