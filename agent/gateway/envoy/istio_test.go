package envoy_test

import (
	"encoding/json"
	"os"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"sigs.k8s.io/yaml"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/envoy/envoytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
	docs "github.com/scriptorium-dev/scriptorium/internal/docs/page"
)

// TestIstioEnvoyFilter: Envoy reads the patches of the page, which fit each other, and an agent the settings.
func TestIstioEnvoyFilter(t *testing.T) {
	text, err := os.ReadFile("../../../docs/gateways/istio.md")
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := docs.Find(docs.Blocks(string(text), "yaml"), "kind: EnvoyFilter")
	if err != nil {
		t.Fatal(err)
	}
	var object struct {
		Spec struct {
			ConfigPatches []struct {
				ApplyTo string `json:"applyTo"`
				Patch   struct {
					Value json.RawMessage `json:"value"`
				} `json:"patch"`
			} `json:"configPatches"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(manifest), &object); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, p := range object.Spec.ConfigPatches {
		values[p.ApplyTo] = string(p.Patch.Value)
	}
	cluster := envoytest.Read(t, values["CLUSTER"], &clusterv3.Cluster{})
	filter := envoytest.Read(t, values["HTTP_FILTER"], &hcmv3.HttpFilter{})
	routes := envoytest.Read(t, values["ROUTE_CONFIGURATION"], &routev3.RouteConfiguration{})

	authz := envoytest.Parts[*authzv3.ExtAuthz](t, filter)
	if len(authz) != 1 || authz[0].GetFailureModeAllow() || authz[0].GetStatusOnError().GetCode() != 503 {
		t.Fatalf("the page has the filters %v", authz)
	}
	if name := authz[0].GetGrpcService().GetEnvoyGrpc().GetClusterName(); name != cluster.GetName() {
		t.Errorf("the filter asks %s, the cluster is %s", name, cluster.GetName())
	}
	if got := cluster.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress().GetPipe().GetPath(); got != socket {
		t.Errorf("the cluster is the pipe %q", got)
	}
	if routes.GetTypedPerFilterConfig()[filter.GetName()] == nil {
		t.Fatalf("there are no settings for the filter %s", filter.GetName())
	}
	settings := envoytest.Parts[*authzv3.ExtAuthzPerRoute](t, routes)[0].GetCheckSettings().GetContextExtensions()
	x := gatewaytest.New()
	x.Set("acme/gate", newDecider().decide)
	_, conn := serve(t, grpcsock.Options{Executor: x})
	req := message(t, "check_get.json", &authv3.CheckRequest{})
	req.Attributes.ContextExtensions = settings
	if resp, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), req); err != nil || resp.GetOkResponse() == nil || settings["fail"] != "closed" {
		t.Errorf("an agent answers the settings %v with %v, %v", settings, resp, err)
	}
}
