package envoy_test

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3" // types of typed_config
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	procfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/health_check/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/least_request/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/envoy/envoytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
	docs "github.com/scriptorium-dev/scriptorium/internal/docs/page"
)

const (
	gatewayPage = "../../../docs/gateways/envoy-gateway.md"
	socket      = "/run/scriptorium/grpc.sock"
)

// upstreams are the applications behind the page's route, of which the page shows nothing.
const upstreams = `
apiVersion: v1
kind: Service
metadata: {name: stable, namespace: shop}
spec: {clusterIP: 10.96.0.10, ports: [{name: http, port: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: canary, namespace: shop}
spec: {clusterIP: 10.96.0.11, ports: [{name: http, port: 8080}]}
`

// manifests returns the manifests of sections of the page.
func manifests(t *testing.T, sections ...string) string {
	t.Helper()
	all := []string{upstreams}
	for _, title := range sections {
		section, err := docs.ReadSection(gatewayPage, title)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, docs.Blocks(section, "yaml")...)
	}
	return strings.Join(all, "---\n")
}

// egctl records anew what Envoy Gateway makes of the page: `make test-envoy-gateway`. To build it takes too long
// for each test.
var egctl = flag.String("envoygateway.egctl", "", "the program egctl, which translates the page's manifests again for testdata/envoygateway")

// recording is what Envoy Gateway made of the manifests with that digest.
type recording struct {
	Manifests string          `json:"manifests"`
	XDS       json.RawMessage `json:"xds"`
}

// translated returns what Envoy gets of the manifests from Envoy Gateway, as the file has it.
func translated(t *testing.T, name, manifests string) *adminv3.ConfigDump {
	t.Helper()
	file := filepath.Join("testdata", "envoygateway", name)
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(manifests)))
	if *egctl != "" {
		record(t, file, recording{Manifests: digest, XDS: translate(t, manifests)})
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var recorded recording
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if recorded.Manifests != digest {
		t.Fatalf("%s is of other manifests than the page has: run `make test-envoy-gateway`", file)
	}
	config := &adminv3.ConfigDump{}
	if err := protojson.Unmarshal(recorded.XDS, config); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return config
}

func record(t *testing.T, file string, r recording) {
	t.Helper()
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
}

// translate runs egctl. An object that Envoy Gateway does not accept is an error.
func translate(t *testing.T, manifests string) json.RawMessage {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	if err := os.WriteFile(file, []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), *egctl, "x", "translate", "--from=gateway-api", "--to=gateway-api,xds", "--output=json", "--file="+file).Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), `"status": "False"`) {
		t.Fatalf("Envoy Gateway does not accept a manifest:\n%s", out)
	}
	var result struct {
		XDS map[string]struct {
			Configs []map[string]any `json:"configs"`
		} `json:"xds"`
	}
	if err := json.Unmarshal(out, &result); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	dump, ok := result.XDS["shop/shop"]
	if !ok || len(result.XDS) != 1 {
		t.Fatalf("Envoy Gateway makes %q of the page", slices.Collect(maps.Keys(result.XDS)))
	}
	// The bootstrap is Envoy Gateway's own.
	dump.Configs = slices.DeleteFunc(dump.Configs, func(c map[string]any) bool {
		return strings.Contains(fmt.Sprint(c["@type"]), "BootstrapConfigDump")
	})
	text, err := json.Marshal(dump)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// reachesAgent checks that the cluster is the agent's socket, over HTTP/2.
func reachesAgent(t *testing.T, config *adminv3.ConfigDump, service *corev3.GrpcService) {
	t.Helper()
	name := service.GetEnvoyGrpc().GetClusterName()
	var pipes []string
	clusters := envoytest.Parts[*clusterv3.Cluster](t, config)
	i := slices.IndexFunc(clusters, func(c *clusterv3.Cluster) bool { return c.GetName() == name })
	if i < 0 {
		t.Fatalf("there is no cluster %s", name)
	}
	loads := append(envoytest.Parts[*endpointv3.ClusterLoadAssignment](t, config), clusters[i].GetLoadAssignment())
	for _, load := range loads {
		if load.GetClusterName() != name && load != clusters[i].GetLoadAssignment() {
			continue
		}
		for _, locality := range load.GetEndpoints() {
			for _, endpoint := range locality.GetLbEndpoints() {
				pipes = append(pipes, endpoint.GetEndpoint().GetAddress().GetPipe().GetPath())
			}
		}
	}
	if !slices.Equal(pipes, []string{socket}) {
		t.Errorf("the endpoints of %s are the pipes %q", name, pipes)
	}
	options := envoytest.Parts[*httpv3.HttpProtocolOptions](t, clusters[i])
	if len(options) != 1 || options[0].GetExplicitHttpConfig().GetHttp2ProtocolOptions() == nil {
		t.Errorf("Envoy speaks no HTTP/2 to %s: %v", name, options)
	}
}

// TestEnvoyGatewayMountsTheSocket: the folder of the Backend's socket is the one that the proxy mounts.
func TestEnvoyGatewayMountsTheSocket(t *testing.T) {
	text := manifests(t, "Let the proxies reach the agent", "Configure ext_authz")
	for _, want := range []string{"unix: {path: " + socket + "}", "hostPath: {path: " + path.Dir(socket) + ", ", "mountPath: " + path.Dir(socket) + ", "} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %s", want)
		}
	}
}

// TestEnvoyGatewayAuthz: Envoy gets the filter that the page describes, and an agent takes its settings.
func TestEnvoyGatewayAuthz(t *testing.T) {
	config := translated(t, "ext_authz.json", manifests(t, "Let the proxies reach the agent", "Configure ext_authz"))
	filters := envoytest.Parts[*authzv3.ExtAuthz](t, config)
	if len(filters) != 2 {
		t.Fatalf("Envoy gets %d filters", len(filters))
	}
	for _, f := range filters {
		if f.GetFailureModeAllow() || f.GetStatusOnError().GetCode() != 503 || !f.GetClearRouteCache() || f.GetGrpcService().GetTimeout().AsDuration().Milliseconds() != 200 {
			t.Errorf("Envoy gets the filter %v", f)
		}
		reachesAgent(t, config, f.GetGrpcService())
	}
	if mutations := envoytest.Parts[*mutationv3.HeaderMutation](t, config); len(mutations) == 0 || mutations[0].GetMutations()[0].GetRemove() != "scriptorium-upstream" {
		t.Errorf("a client's scriptorium-upstream stays: %v", mutations)
	}
	asks := settingsOfRules(t, config)
	route := map[string]string{"script": "acme/route", "fail": "closed", "timeout": "100ms", "key": "request.headers.x-user", "param.env": "prod"}
	for rule, want := range map[string]map[string]string{
		"canary": route, "all": route, "images": {"event": "pre-route", "tenant": "acme", "fail": "open"},
	} {
		if !maps.Equal(asks[rule], want) {
			t.Errorf("the rule %s asks with %q", rule, asks[rule])
		}
	}
	x := gatewaytest.New()
	x.Set("acme/route", newDecider().decide)
	_, conn := serve(t, grpcsock.Options{Executor: x})
	req := message(t, "check_get.json", &authv3.CheckRequest{})
	req.Attributes.ContextExtensions = asks["all"]
	resp, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), req)
	if err != nil || resp.GetOkResponse() == nil {
		t.Errorf("an agent answers the settings %v with %v, %v", asks["all"], resp, err)
	}
}

// settingsOfRules returns the context extensions of the rules of the page's route, by their names.
func settingsOfRules(t *testing.T, config *adminv3.ConfigDump) map[string]map[string]string {
	t.Helper()
	asks := map[string]map[string]string{}
	for _, table := range envoytest.Parts[*routev3.RouteConfiguration](t, config) {
		for _, host := range table.GetVirtualHosts() {
			for _, r := range host.GetRoutes() {
				var rule string
				for _, m := range r.GetMetadata().GetFilterMetadata() {
					for _, of := range m.GetFields()["resources"].GetListValue().GetValues() {
						rule = of.GetStructValue().GetFields()["sectionName"].GetStringValue()
					}
				}
				for name, packed := range r.GetTypedPerFilterConfig() {
					if !strings.HasPrefix(name, "envoy.filters.http.ext_authz/") {
						t.Errorf("the rule %s has settings of %s", rule, name)
					}
					perRoute := &authzv3.ExtAuthzPerRoute{}
					if err := packed.UnmarshalTo(perRoute); err != nil || asks[rule] != nil {
						t.Errorf("the rule %s has the settings %v twice: %v", rule, packed, err)
					}
					asks[rule] = perRoute.GetCheckSettings().GetContextExtensions()
				}
			}
		}
	}
	return asks
}

// TestEnvoyGatewayProc: the patch brings the script's name to the filter.
func TestEnvoyGatewayProc(t *testing.T) {
	text := manifests(t, "Let the proxies reach the agent", "Configure ext_authz", "Configure ext_proc")
	kept := slices.DeleteFunc(strings.Split(text, "---\n"), func(m string) bool { return strings.Contains(m, "kind: SecurityPolicy") })
	config := translated(t, "ext_proc.json", strings.Join(kept, "---\n"))
	filters := envoytest.Parts[*procfilterv3.ExternalProcessor](t, config)
	if len(filters) != 1 || len(envoytest.Parts[*authzv3.ExtAuthz](t, config)) > 0 {
		t.Fatalf("Envoy gets %d filters", len(filters))
	}
	f := filters[0]
	reachesAgent(t, config, f.GetGrpcService())
	mode := f.GetProcessingMode()
	if f.GetFailureModeAllow() || !f.GetMutationRules().GetDisallowIsError().GetValue() ||
		mode.GetRequestHeaderMode() != procfilterv3.ProcessingMode_SEND || mode.GetResponseHeaderMode() != procfilterv3.ProcessingMode_SEND {
		t.Errorf("Envoy gets the filter %v", f)
	}
	got := map[string]string{}
	for _, m := range f.GetGrpcService().GetInitialMetadata() {
		got[m.GetKey()] = m.GetValue()
	}
	want := map[string]string{"scriptorium-script": "acme/route", "scriptorium-fail": "closed", "scriptorium-timeout": "100ms", "scriptorium-param-env": "prod"}
	if !maps.Equal(got, want) {
		t.Errorf("Envoy asks with %q", got)
	}
	x := gatewaytest.New()
	x.Set("acme/route", newDecider().decide)
	_, conn := serve(t, grpcsock.Options{Executor: x})
	stream, err := procv3.NewExternalProcessorClient(conn).Process(metadata.NewOutgoingContext(t.Context(), metadata.New(got)))
	if err != nil {
		t.Fatal(err)
	}
	if out := exchange(t, stream, message(t, "process_request.json", &procv3.ProcessingRequest{})); out.GetRequestHeaders() == nil {
		t.Errorf("an agent answers %v", out)
	}
}
