package envoy_test

import (
	"context"
	"maps"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestCheckByEvent: context_extensions name an event and a tenant in place of a script.
func TestCheckByEvent(t *testing.T) {
	const forged = `"headersToRemove":["scriptorium-upstream"]`
	x := newDecider()
	x.Set("acme/first", func(context.Context, *gateway.Call) ([][]byte, error) {
		return [][]byte{[]byte(`{"headers":{"set":{"x-a":"1"}},"path":"/v2","metadata":{"one":1}}`)}, nil
	})
	x.SetTrigger("acme/first", script.Trigger{Event: "pre", Priority: 1})
	x.SetTrigger("acme/d", script.Trigger{Event: "pre"})
	_, conn := serve(t, grpcsock.Options{Executor: x})
	for _, tt := range []struct {
		name, result, want string
		settings           map[string]string
	}{
		{
			"both allow", `{"headers":{"append":{"x-a":"2"}},"query":"","metadata":{"two":2}}`, `{"status":{}, "okResponse":{"headers":[
			{"header":{"key":"x-a","value":"1"},"appendAction":"OVERWRITE_IF_EXISTS_OR_ADD"},
			{"header":{"key":"x-a","value":"2"},"append":true},
			{"header":{"key":":path","value":"/v2"},"appendAction":"OVERWRITE_IF_EXISTS_OR_ADD"}],` + forged + `}, "dynamicMetadata":{"one":1,"two":2}}`,
			map[string]string{"event": "pre", "tenant": "acme"},
		},
		{"the second denies", `false`, `{"status":{"code":7}, "deniedResponse":{"status":{"code":403}}, "dynamicMetadata":{"one":1}}`, map[string]string{"event": "pre", "tenant": "acme"}},
	} {
		x.returns(tt.result)
		req := message(t, "check_get.json", &authv3.CheckRequest{})
		req.Attributes.ContextExtensions = tt.settings
		resp, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), req)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		resp.DynamicMetadata = expectRan(t, tt.name, resp.GetDynamicMetadata(), map[string]any{"scriptorium_chain": "first@7, d@7"})
		expect(t, tt.name, resp, &authv3.CheckResponse{}, tt.want)
	}
	for _, settings := range []map[string]string{
		{"event": "pre"}, {"tenant": "acme"}, {"event": "Pre", "tenant": "acme"}, {"event": "pre", "tenant": "acme", "script": "acme/d"}, {"event": "none", "tenant": "acme"},
	} {
		req := message(t, "check_get.json", &authv3.CheckRequest{})
		req.Attributes.ContextExtensions = maps.Clone(settings)
		resp, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), req)
		if err != nil || resp.GetDeniedResponse().GetStatus().GetCode() != 503 {
			t.Errorf("%v: %v, %v", settings, resp, err)
		}
	}
}
