package httpsock_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/httpsock"
)

// TestDecideAsJSON has all of a decision in the body, if the path asks for that. Nothing else of a request
// can: the answer is 200 also for a denial.
func TestDecideAsJSON(t *testing.T) {
	result, got := "", asked{}
	_, _, client := serve(t, httpsock.Options{Executor: deciding(&result, &got)})
	for _, tt := range []struct{ path, result, want string }{
		{"format=json/acme/d", "", `{"allow":true,"headers":{},"response_headers":{}}`},
		{
			"format=json/acme/d", `{"allow":false,"status":200,"body":"hi","response_headers":{"append":{"x-b":["1","2"]},"remove":["x-c"]}}`,
			`{"allow":false,"status":200,"body":"hi","headers":{},"response_headers":{"remove":["x-c"],"append":[["x-b","1"],["x-b","2"]]}}`,
		},
		{
			"format=json/acme/d", `{"headers":{"set":{"x-a":"1"}},"path":"/x","query":"","upstream":"u","metadata":{"m":1}}`,
			`{"allow":true,"headers":{"set":[["x-a","1"]]},"response_headers":{},"upstream":"u","path":"/x","query":"","metadata":{"m":1}}`,
		},
		{"format=json,fail=open/acme/d", `{"alow":false}`, `{"allow":true,"headers":{},"response_headers":{"set":[["scriptorium-reason","INVALID"]]},"reason":"INVALID"}`},
		{"format=json/acme/none", "", `{"allow":false,"status":503,"body":"no decision\n","headers":{},"response_headers":{"set":[["scriptorium-reason","NOTFOUND"]]},"reason":"NOTFOUND"}`},
	} {
		result = tt.result
		r, body := ask(t, client, "GET", "/v1/decide/"+tt.path, "", "X-Forwarded-Uri", "/shop")
		if r.status != http.StatusOK || r.header.Get("Content-Type") != "application/vnd.scriptorium.decision+json" || strings.Replace(body, `,"version":7`, "", 1) != tt.want {
			t.Errorf("%s, %s: %d %s\nwant %s", tt.path, tt.result, r.status, body, tt.want)
		}
	}
	result = `{"allow":false,"status":403}`
	for _, path := range []string{"acme/d?format=json", "acme/d/format=json"} {
		if r, body := ask(t, client, "GET", "/v1/decide/"+path, "", "X-Forwarded-Uri", "/shop", "Accept", "application/vnd.scriptorium.decision+json"); r.status != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, r.status, body)
		}
	}
	if r, _ := ask(t, client, "GET", "/v1/decide/format=xml/acme/d", "", "X-Forwarded-Uri", "/shop"); r.status != http.StatusBadRequest {
		t.Errorf("another format: %d", r.status)
	}
}
