package envoy_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	procfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/envoy/envoytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
)

const page = "../../../docs/gateways/envoy.md"

// shown returns the YAML of the page that begins so, in its order.
func shown(t *testing.T, beginning string) (texts []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), "```yaml\n")[1:] {
		if block, _, _ := strings.Cut(part, "```"); strings.HasPrefix(block, beginning) {
			texts = append(texts, block)
		}
	}
	if len(texts) == 0 {
		t.Fatalf("%s shows no %s", page, beginning)
	}
	return texts
}

// TestPageAuthz: Envoy reads the page's configuration, and an agent its settings.
func TestPageAuthz(t *testing.T) {
	x := gatewaytest.New()
	x.Set("acme/route", newDecider().decide)
	_, conn := serve(t, grpcsock.Options{Executor: x})
	bootstrap := envoytest.Read(t, shown(t, "static_resources")[0], &bootstrapv3.Bootstrap{})
	filters := envoytest.Parts[*authzv3.ExtAuthz](t, bootstrap)
	if len(filters) != 1 || filters[0].GetFailureModeAllow() {
		t.Errorf("the page has %d filters, %v", len(filters), filters)
	}
	clusters := bootstrap.GetStaticResources().GetClusters()
	name := filters[0].GetGrpcService().GetEnvoyGrpc().GetClusterName()
	if !slices.ContainsFunc(clusters, func(c *clusterv3.Cluster) bool { return c.GetName() == name }) {
		t.Errorf("the page has no cluster %s", name)
	}
	if managers := envoytest.Parts[*hcmv3.HttpConnectionManager](t, bootstrap); len(managers) != 1 {
		t.Errorf("the page has %d managers of connections", len(managers))
	}
	settings := map[string]string{}
	for _, route := range envoytest.Parts[*authzv3.ExtAuthzPerRoute](t, bootstrap) {
		for key, value := range route.GetCheckSettings().GetContextExtensions() {
			settings[key] = value
		}
	}
	req := message(t, "check_get.json", &authv3.CheckRequest{})
	req.Attributes.ContextExtensions = settings
	resp, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), req)
	if err != nil || resp.GetOkResponse() == nil {
		t.Errorf("the settings %v: %v, %v", settings, resp, err)
	}
}

// TestPageProc: Envoy reads the page's filter and settings of a route, and an agent the settings.
func TestPageProc(t *testing.T) {
	x := gatewaytest.New()
	script := newDecider()
	script.returns(`{"metadata":{"plan":"gold"},"headers":{"set":{"x-user":"ann"}}}`)
	x.Set("acme/route", script.decide)
	_, conn := serve(t, grpcsock.Options{Executor: x})
	filter := envoytest.Parts[*procfilterv3.ExternalProcessor](t, envoytest.Read(t, shown(t, "name: envoy.filters.http.ext_proc")[0], &hcmv3.HttpFilter{}))[0]
	route := envoytest.Parts[*procfilterv3.ExtProcPerRoute](t, envoytest.Read(t, shown(t, `"@type"`)[0], &anypb.Any{}))[0]
	ctx := t.Context()
	for _, header := range append(filter.GetGrpcService().GetInitialMetadata(), route.GetOverrides().GetGrpcInitialMetadata()...) {
		ctx = metadata.AppendToOutgoingContext(ctx, header.GetKey(), header.GetValue())
	}
	if filter.GetFailureModeAllow() || !filter.GetMutationRules().GetDisallowIsError().GetValue() {
		t.Errorf("the page's filter lets through what fails: %v", filter)
	}
	stream, err := procv3.NewExternalProcessorClient(conn).Process(ctx)
	if err != nil {
		t.Fatal(err)
	}
	out := exchange(t, stream, message(t, "process_request.json", &procv3.ProcessingRequest{}))
	namespaces := filter.GetMetadataOptions().GetReceivingNamespaces().GetUntyped()
	for name := range out.GetDynamicMetadata().GetFields() {
		if !slices.Contains(namespaces, name) {
			t.Errorf("the page's filter drops the metadata of %s", name)
		}
	}
	if out.GetRequestHeaders() == nil || out.GetDynamicMetadata() == nil {
		t.Errorf("got %v", out)
	}
	_, argument := script.asked()
	for _, part := range []string{`"route":"images"`, `"params":{"env":"prod"}`, `"remote_addr":"192.0.2.7"`, `"client_certificate":"CN=ann`} {
		if !strings.Contains(argument, part) {
			t.Errorf("the script got %s, want %s", argument, part)
		}
	}
	asked := []string{"source.address", "connection.subject_peer_certificate", "xds.route_name"}
	if !slices.Equal(filter.GetRequestAttributes(), asked) {
		t.Errorf("the page's filter sends %v, want %v", filter.GetRequestAttributes(), asked)
	}
}

// TestPageResponses: with the page's filter for responses, on_response sees them with their bodies.
func TestPageResponses(t *testing.T) {
	x := newResponder()
	x.Set("acme/route", x.decide)
	x.SetOnResponse("acme/route", x.respond)
	_, conn := serve(t, grpcsock.Options{Executor: x})
	filters := shown(t, "name: envoy.filters.http.ext_proc")
	filter := envoytest.Parts[*procfilterv3.ExternalProcessor](t, envoytest.Read(t, filters[1], &hcmv3.HttpFilter{}))[0]
	ctx := t.Context()
	for _, header := range filter.GetGrpcService().GetInitialMetadata() {
		ctx = metadata.AppendToOutgoingContext(ctx, header.GetKey(), header.GetValue())
	}
	mode := filter.GetProcessingMode()
	if filter.GetFailureModeAllow() || !filter.GetMutationRules().GetDisallowIsError().GetValue() || filter.GetMutationRules().GetDisallowSystem().GetValue() ||
		!filter.GetAllowModeOverride() || mode.GetResponseHeaderMode() != procfilterv3.ProcessingMode_SEND || mode.GetResponseTrailerMode() != procfilterv3.ProcessingMode_SEND {
		t.Errorf("the page's filter lets through what fails: %v", filter)
	}
	stream, err := procv3.NewExternalProcessorClient(conn).Process(ctx)
	if err != nil {
		t.Fatal(err)
	}
	in := message(t, "process_request.json", &procv3.ProcessingRequest{})
	in.ProtocolConfig = &procv3.ProtocolConfiguration{RequestBodyMode: mode.GetRequestBodyMode(), ResponseBodyMode: mode.GetResponseBodyMode()}
	x.responds(`{"body":"x","metadata":{"plan":"gold"}}`)
	exchange(t, stream, in)
	exchange(t, stream, message(t, "process_response.json", &procv3.ProcessingRequest{}))
	out := exchange(t, stream, bodyOf("all"))
	if out.GetResponseBody().GetResponse().GetBodyMutation() == nil {
		t.Errorf("got %v", out)
	}
	for name := range out.GetDynamicMetadata().GetFields() {
		if !slices.Contains(filter.GetMetadataOptions().GetReceivingNamespaces().GetUntyped(), name) {
			t.Errorf("the page's filter drops the metadata of %s", name)
		}
	}
}
