package decision_test

import (
	"encoding/json"
	"testing"

	"golang.org/x/net/http/httpguts"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
)

// FuzzOutcome: whatever on_response returns is an outcome that HTTP has, or an error. What a response is
// as an argument is JSON, and no longer than it says.
func FuzzOutcome(f *testing.F) {
	for _, text := range []string{
		``, `null`, `true`, `false`, `{}`, `{"status":418,"body":"x"}`, `{"allow":false,"status":204}`, `{"redirect":"/x"}`, `{"headers":{"set":{"a":"1"}}}`,
		`{"response_headers":{"set":{"a":["1","2"]},"append":{"b":1},"remove":["c"]},"metadata":{"a":1}}`, `{"body":"","cookies":[{"name":"a","value":"1"}]}`,
	} {
		f.Add([]byte(text), 200)
		f.Add([]byte(text), 304)
	}
	f.Fuzz(func(t *testing.T, text []byte, status int) {
		r := decision.Response{Status: status, Headers: map[string][]string{string(text): {"a", string(text)}, "X-A": nil}, Body: text, HasBody: true}
		argument := r.Argument(nil)
		if !json.Valid(argument) || len(argument) > r.ArgumentBytes() {
			t.Fatalf("%d bytes, said %d: %s", len(argument), r.ArgumentBytes(), argument)
		}
		o, err := decision.ParseOutcome(text)
		if err != nil {
			return
		}
		if o.Status != 0 && (o.Status < 200 || o.Status > 599) || o.Answer && o.Status == 0 {
			t.Fatalf("%s has the status %d", text, o.Status)
		}
		for _, h := range append(o.Headers.Set, o.Headers.Append...) {
			if !httpguts.ValidHeaderFieldName(h.Name) || !httpguts.ValidHeaderFieldValue(h.Value) || h.Name == "content-length" {
				t.Fatalf("%s sets %+v", text, h)
			}
		}
		if o.Fits(&r) == nil && !o.Answer && o.Body != nil && *o.Body != "" && (status == 304 && o.Status == 0 || o.Status == 304) {
			t.Fatalf("%s gives a body to %d", text, status)
		}
	})
}
