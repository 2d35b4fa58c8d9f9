package httpsock_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/httpsock"
)

// TestKeys: a caller of a script names the key itself. Of a request for a decision the gateway's
// configuration says which part is the key, and the client's own Scriptorium-Key is none.
func TestKeys(t *testing.T) {
	x := gatewaytest.New()
	x.Set("acme/key", gatewaytest.Key)
	_, _, client := serve(t, httpsock.Options{Executor: x})
	got := do(t, client, "POST", "/v1/execute/acme/key", "1", "Scriptorium-Key", "ann", "X-User", "bob")
	if !strings.Contains(got.body, `"ann, no request"`) {
		t.Errorf("a call with a key gets %s", got.body)
	}
	for path, want := range map[string]string{
		"/v1/decide/acme/key/cart":                                               ", bob",
		"/v1/decide/key=request.headers.x-user/acme/key/cart":                    "bob, bob",
		"/v1/decide/fail=open,key=request.query_params.id/acme/key/cart?id=a%2C": "a,, bob",
		"/v1/decide/key=request.cookies.session/acme/key/cart":                   "42, bob",
	} {
		_, body := ask(t, client, "GET", path, "", "Scriptorium-Key", "forged", "X-User", "bob", "Cookie", "session=42")
		if body != want {
			t.Errorf("%s: %q, want %q", path, body, want)
		}
	}
	for _, setting := range []string{"key=", "key=x-user", "key=request.headers.scriptorium-key"} {
		reply, body := ask(t, client, "GET", "/v1/decide/"+setting+"/acme/key/cart", "")
		if reply.status != 400 || !strings.Contains(body, "request.headers.NAME") && !strings.Contains(body, "name another one") {
			t.Errorf("%s: %d %s", setting, reply.status, body)
		}
	}
}
