package httpsock_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/httpsock"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestDecideByEvent: the gateway names the event in the path, and a client cannot.
func TestDecideByEvent(t *testing.T) {
	var result string
	var got asked
	x := deciding(&result, &got)
	x.SetTrigger("acme/d", script.Trigger{Event: "pre-route", Match: script.Match{PathPrefixes: []string{"/cart"}, Headers: map[string]string{"x-beta": "1"}}})
	x.Set("acme/first", func(context.Context, *gateway.Call) ([][]byte, error) {
		return [][]byte{[]byte(`{"headers":{"set":{"x-user":"ann"}},"path":"/v2"}`)}, nil
	})
	x.SetTrigger("acme/first", script.Trigger{Event: "pre-route", Priority: 1, Match: script.Match{PathPrefixes: []string{"/cart"}}})
	x.SetTrigger("acme/fail", script.Trigger{Event: "failing"})
	x.SetTrigger("acme/wait", script.Trigger{Event: "waiting"})
	x.SetTrigger("acme/panic", script.Trigger{Event: "panicking"})
	_, _, client := serve(t, httpsock.Options{Executor: x})
	for _, tt := range []struct {
		path, uri string // uri: as a header
		result    string
		status    int
		headers   map[string]string
	}{
		{"event=pre-route/acme", "/cart?a=1", ``, 200, map[string]string{"Scriptorium-Chain": "first@7, d@7", "X-User": "ann", "Scriptorium-Path": "/v2", "Scriptorium-Version": ""}},
		{"event=pre-route/acme/cart/7?a=1", "", ``, 200, map[string]string{"Scriptorium-Chain": "first@7, d@7"}},
		{"event=pre-route,accel=@app/acme", "/x/../cart", ``, 200, map[string]string{"Scriptorium-Chain": "first@7, d@7", "X-Accel-Redirect": "@app"}},
		{"event=pre-route/acme", "/cart", `{"allow":false,"status":418}`, 418, map[string]string{"Scriptorium-Chain": "first@7, d@7", "X-User": ""}},
		{"event=pre-route/acme", "/cart", `{"allow":false,"status":200}`, 503, map[string]string{"Scriptorium-Reason": "INVALID"}},
		{"event=pre-route/acme", "/carts", `false`, 200, map[string]string{"Scriptorium-Chain": "none", "Content-Length": "0"}},
		{"event=pre-route/acme/", "", `false`, 200, map[string]string{"Scriptorium-Chain": "none"}},
		{"event=none/acme", "/cart", ``, 503, map[string]string{"Scriptorium-Reason": "NOTFOUND", "Scriptorium-Chain": ""}},
		{"event=pre-route/shop", "/cart", ``, 503, map[string]string{"Scriptorium-Reason": "NOTFOUND"}},
		{"event=none,fail=open/acme", "/cart", ``, 200, map[string]string{"Scriptorium-Reason": "NOTFOUND"}},
		{"event=failing/acme", "/", ``, 503, map[string]string{"Scriptorium-Reason": "SCRIPT", "Scriptorium-Chain": "fail@7"}},
		{"event=failing,fail=open/acme", "/", ``, 200, map[string]string{"Scriptorium-Reason": "SCRIPT"}},
		{"event=waiting,timeout=1ms/acme", "/", ``, 503, map[string]string{"Scriptorium-Reason": "TIMEOUT"}},
		{"event=panicking/acme", "/", ``, 503, map[string]string{"Scriptorium-Reason": "INTERNAL"}},
		{"event=Pre/acme", "/", ``, 400, map[string]string{"Scriptorium-Reason": "INVALID"}},
		{"event=/acme", "/", ``, 400, map[string]string{"Scriptorium-Reason": "INVALID"}},
		{"event=pre-route/", "/", ``, 400, map[string]string{"Scriptorium-Reason": "INVALID"}},
		{"event=pre-route/Acme", "/", ``, 400, map[string]string{"Scriptorium-Reason": "INVALID"}},
		{"acme/d?event=failing", "/", ``, 200, map[string]string{"Scriptorium-Version": "7", "Scriptorium-Chain": ""}},
		{"acme/d", "/?event=failing", ``, 200, map[string]string{"Scriptorium-Version": "7"}},
	} {
		result, got = tt.result, asked{}
		headers := []string{"X-Beta", "1", "X-User", "mallory", "Scriptorium-Chain", "forged"}
		if tt.uri != "" {
			headers = append(headers, "X-Forwarded-Uri", tt.uri)
		}
		resp, body := ask(t, client, http.MethodGet, "/v1/decide/"+tt.path, "", headers...)
		if resp.status != tt.status {
			t.Errorf("%s, %s: %d %q, want %d", tt.path, tt.uri, resp.status, body, tt.status)
		}
		for name, want := range tt.headers {
			if resp.header.Get(name) != want {
				t.Errorf("%s, %s: %s is %q, want %q", tt.path, tt.uri, name, resp.header.Get(name), want)
			}
		}
		if got.Tenant != "" && resp.header.Get("Scriptorium-Chain") != "" && (got.Path != "/v2" || got.Headers["x-user"] != "ann") {
			t.Errorf("%s: the second script gets %+v", tt.path, got)
		}
	}
}

// TestEventsNeedAGrant: for the tenant, as scripts do.
func TestEventsNeedAGrant(t *testing.T) {
	x := deciding(new(string), &asked{})
	x.SetTrigger("acme/d", script.Trigger{Event: "pre-route"})
	access, err := gateway.ParseAccess([]string{"uid:4294967294=acme"})
	if err != nil {
		t.Fatal(err)
	}
	_, _, client := serve(t, httpsock.Options{Executor: x, Access: access})
	resp, _ := ask(t, client, http.MethodGet, "/v1/decide/event=pre-route/acme/", "")
	if resp.status != 503 || resp.header.Get("Scriptorium-Reason") != "DENIED" {
		t.Errorf("%+v", resp)
	}
}
