package envoy_test

import (
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
)

// TestKeys: Envoy's configuration says which part of the request is the key, and no header of the
// client's does.
func TestKeys(t *testing.T) {
	x := gatewaytest.New()
	x.Set("acme/key", gatewaytest.Key)
	_, conn := serve(t, grpcsock.Options{Executor: x})
	for key, want := range map[string]string{"": ", bob", "request.headers.x-user": "bob, bob", "request.query_params.id": "7, bob", "x-user": "no decision\n"} {
		req := message(t, "check_get.json", &authv3.CheckRequest{})
		req.Attributes.ContextExtensions = map[string]string{"script": "acme/key"}
		if key != "" {
			req.Attributes.ContextExtensions["key"] = key
		}
		http := req.GetAttributes().GetRequest().GetHttp()
		http.Path, http.Headers = "/?id=7", map[string]string{"x-user": "bob", "scriptorium-key": "forged"}
		resp, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), req)
		if err != nil || resp.GetDeniedResponse().GetBody() != want {
			t.Errorf("%q: %v, %v, want %q", key, resp, err, want)
		}
	}
}
