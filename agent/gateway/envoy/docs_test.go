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
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3" // types of typed_config
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"

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

// read reads YAML into a message of Envoy, and checks it and what it contains as Envoy does.
func read[M proto.Message](t *testing.T, text string, m M) M {
	t.Helper()
	json, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(json, m); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	for _, part := range contents(t, m) {
		if v, ok := part.(interface{ ValidateAll() error }); ok {
			if err := v.ValidateAll(); err != nil {
				t.Errorf("%s: %v", part.ProtoReflect().Descriptor().FullName(), err)
			}
		}
	}
	return m
}

// contents returns the message, and those of all typed_config in it.
func contents(t *testing.T, m proto.Message) []proto.Message {
	t.Helper()
	parts := []proto.Message{m}
	var walk func(protoreflect.Message)
	walk = func(r protoreflect.Message) {
		if packed, ok := r.Interface().(*anypb.Any); ok {
			if packed.GetTypeUrl() == "" {
				return // Envoy Gateway enables filters of routes by it
			}
			inner, err := packed.UnmarshalNew()
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, contents(t, inner)...)
			return
		}
		r.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch {
			case f.IsMap() && f.MapValue().Message() != nil:
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					walk(v.Message())
					return true
				})
			case f.IsList() && f.Message() != nil:
				for i := range v.List().Len() {
					walk(v.List().Get(i).Message())
				}
			case !f.IsMap() && f.Message() != nil:
				walk(v.Message())
			}
			return true
		})
	}
	walk(m.ProtoReflect())
	return parts
}

// partsOf returns the messages of a type that the configuration contains.
func partsOf[M proto.Message](t *testing.T, m proto.Message) (parts []M) {
	t.Helper()
	for _, part := range contents(t, m) {
		if p, ok := part.(M); ok {
			parts = append(parts, p)
		}
	}
	return parts
}

// TestPageAuthz: Envoy reads the page's configuration, and an agent its settings.
func TestPageAuthz(t *testing.T) {
	x := gatewaytest.New()
	x.Set("acme/route", newDecider().decide)
	_, conn := serve(t, grpcsock.Options{Executor: x})
	bootstrap := read(t, shown(t, "static_resources")[0], &bootstrapv3.Bootstrap{})
	filters := partsOf[*authzv3.ExtAuthz](t, bootstrap)
	if len(filters) != 1 || filters[0].GetFailureModeAllow() {
		t.Errorf("the page has %d filters, %v", len(filters), filters)
	}
	clusters := bootstrap.GetStaticResources().GetClusters()
	name := filters[0].GetGrpcService().GetEnvoyGrpc().GetClusterName()
	if !slices.ContainsFunc(clusters, func(c *clusterv3.Cluster) bool { return c.GetName() == name }) {
		t.Errorf("the page has no cluster %s", name)
	}
	if managers := partsOf[*hcmv3.HttpConnectionManager](t, bootstrap); len(managers) != 1 {
		t.Errorf("the page has %d managers of connections", len(managers))
	}
	settings := map[string]string{}
	for _, route := range partsOf[*authzv3.ExtAuthzPerRoute](t, bootstrap) {
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
	filter := partsOf[*procfilterv3.ExternalProcessor](t, read(t, shown(t, "name: envoy.filters.http.ext_proc")[0], &hcmv3.HttpFilter{}))[0]
	route := partsOf[*procfilterv3.ExtProcPerRoute](t, read(t, shown(t, `"@type"`)[0], &anypb.Any{}))[0]
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
	filter := partsOf[*procfilterv3.ExternalProcessor](t, read(t, filters[1], &hcmv3.HttpFilter{}))[0]
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
