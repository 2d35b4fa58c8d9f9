package decision_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/script"
)

// FuzzParseRequest: whatever a caller sends is Invalid, or becomes the argument that encoding/json reads
// of it.
func FuzzParseRequest(f *testing.F) {
	for _, seed := range []string{
		`{"uri":"/"}`, ` { "uri" : "/a?b" , "method" : "GET" , "headers" : { "A" : [ "1" , 2 ] , "b":"\u00e9" } } `,
		`{"uri":"/x","body":"{\"a\":[1]}","params":{"p":-1.5e3},"headers":[]}`, `{"uri":"/","uri":"/"}`, `{"uri":null}`, `{"uri":"/","headers":{"a":{}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := decision.ParseRequest(text)
		if err != nil {
			if script.KindOf(err) != script.Invalid {
				t.Error(err)
			}
			return
		}
		var want struct {
			Method, Scheme, Host, Route, Body string
			Headers                           json.RawMessage
		}
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatalf("%q is a request, and no JSON: %v", text, err)
		}
		if r.Method != want.Method || r.Scheme != want.Scheme || r.Host != want.Host || r.Route != want.Route || string(r.Body) != want.Body {
			t.Errorf("%q: %+v, want %+v", text, r, want)
		}
		var argument struct{ Headers map[string]any }
		if err := json.Unmarshal(r.Argument(nil, "acme"), &argument); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		var headers map[string]any
		if json.Unmarshal(want.Headers, &headers) == nil && len(argument.Headers) > len(headers) {
			t.Errorf("%q: headers %v, want %v", text, argument.Headers, headers)
		}
	})
}

// TestParseRequest: all members of a request.
func TestParseRequest(t *testing.T) {
	text := []byte(` {"uri":"/a?b=c?d","method":"POST","scheme":"https","host":"shop","remote_addr":"192.0.2.7","route":"r","body":"",
		"client_certificate":"CN=a","headers":{"X-B":["1",2],"a":"\u00e9\""},"params":{"limit":7}} `)
	r, err := decision.ParseRequest(text)
	clear(text)
	want := &decision.Request{
		Path: "/a", Query: "b=c?d", Method: "POST", Scheme: "https", Host: "shop", RemoteAddr: "192.0.2.7", Route: "r", Body: []byte{}, HasBody: true,
		ClientCertificate: "CN=a", Headers: map[string][]string{"X-B": {"1", "2"}, "a": {"é\""}}, Params: map[string]string{"limit": "7"},
	}
	if err != nil || !reflect.DeepEqual(r, want) {
		t.Errorf("%+v, %v\nwant %+v", r, err, want)
	}
}
