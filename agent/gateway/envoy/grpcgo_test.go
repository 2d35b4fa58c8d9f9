package envoy_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/grpc_service/channel_credentials/insecure/v3" // the type
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/xds"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
)

// enabled makes gRPC's client run the filter ext_proc. It reads the variable when it starts.
const enabled = "GRPC_EXPERIMENTAL_XDS_EXT_PROC_ON_CLIENT"

// TestGRPCClient: the filter ext_proc of gRPC's own client, which is not ours, asks an agent.
func TestGRPCClient(t *testing.T) {
	if os.Getenv(enabled) == "" {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestGRPCClient$", "-test.v")
		again.Env = append(os.Environ(), enabled+"=true")
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	x := newResponder()
	path, _ := serve(t, grpcsock.Options{Executor: x})
	var got metadata.MD // that the upstream gets
	upstream := listen(t, func(s *grpc.Server) { healthv1.RegisterHealthServer(s, health.NewServer()) }, grpc.UnaryInterceptor(
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			got, _ = metadata.FromIncomingContext(ctx)
			return next(ctx, req)
		}), grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if err := stream.SetHeader(metadata.Pairs("server", "app", "x-kept", "2")); err != nil {
			return err
		}
		return next(srv, stream)
	}))
	management := listen(t, func(s *grpc.Server) {
		discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, &resources{byType: resourcesFor(t, "unix:"+path, upstream)})
	})
	bootstrap, err := json.Marshal(map[string]any{
		"xds_servers": []any{map[string]any{
			"server_uri": management.String(), "channel_creds": []any{map[string]any{"type": "insecure"}}, "server_features": []string{"xds_v3", "trusted_xds_server"},
		}},
		"node": map[string]any{"id": "test"},
	})
	if err != nil {
		t.Fatal(err)
	}
	resolver, err := xds.NewXDSResolverWithConfigForTesting(bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("xds:///service", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithResolvers(resolver))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	call := func() error {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-secret", "1", "x-kept", "2")
		_, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
		return err
	}
	x.returns(`{"headers":{"remove":["x-secret"],"set":{"x-set":"ann"}}}`)
	if err := call(); err != nil {
		t.Fatal(err)
	}
	if calls, argument := x.asked(); calls != 1 || len(got.Get("x-secret")) != 0 || len(got.Get("x-kept")) != 1 || strings.Join(got.Get("x-set"), ",") != "ann" || !strings.Contains(argument, `"path":"/grpc.health.v1.Health/Check"`) {
		t.Errorf("the upstream got %v, after %d calls with %s", got, calls, argument)
	}
	watchResponses(t, x, conn)
	for _, result := range []string{`false`, `{"redirect":"/login"}`, `{"alow":false}`} {
		got = nil
		x.returns(result)
		if err := call(); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "scriptorium_") || got != nil {
			t.Errorf("%s: %v, and the upstream got %v", result, err, got)
		}
	}
}

// watchResponses: on_response changes the headers that gRPC's client gets, and can take its place.
func watchResponses(t *testing.T, x *responder, conn *grpc.ClientConn) {
	t.Helper()
	headers := func(result string) (metadata.MD, error) {
		x.responds(result)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := healthv1.NewHealthClient(conn).Watch(ctx, &healthv1.HealthCheckRequest{})
		if err != nil {
			return nil, err
		}
		return stream.Header()
	}
	if got, err := headers(""); err != nil || len(got.Get("server")) != 1 {
		t.Errorf("the client got %v, %v", got, err)
	}
	if !slices.ContainsFunc(x.responded(), func(call *gateway.Call) bool { // others are about unary calls, which do not wait for them
		return strings.Contains(string(call.Args[0]), `"path":"/grpc.health.v1.Health/Watch"`) && strings.Contains(string(call.Args[1]), `"server":"app"`)
	}) {
		t.Errorf("on_response was called %d times, without the response", len(x.responded()))
	}
	got, err := headers(`{"response_headers":{"remove":["server"],"set":{"x-kept":"3"}}}`)
	if err != nil || len(got.Get("server")) != 0 || strings.Join(got.Get("x-kept"), ",") != "3" {
		t.Errorf("the client got %q, %q, %v", got.Get("server"), got.Get("x-kept"), err)
	}
	for _, result := range []string{`false`, `fail`, `{"alow":false}`} {
		if got, err := headers(result); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "scriptorium_") || len(got.Get("server")) != 0 {
			t.Errorf("%s: the client got %v, %v", result, got, err)
		}
	}
}

// listen serves on a port until the test ends.
func listen(t *testing.T, register func(*grpc.Server), options ...grpc.ServerOption) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(options...)
	register(s)
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return l.Addr().(*net.TCPAddr)
}

// resources is a management server with one edition of each.
type resources struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	byType map[string]*anypb.Any
}

// StreamAggregatedResources implements discoveryv3.AggregatedDiscoveryServiceServer.
func (r *resources) StreamAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	for {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		if req.GetErrorDetail() != nil {
			return errors.New(req.GetErrorDetail().GetMessage())
		}
		if req.GetVersionInfo() != "" || r.byType[req.GetTypeUrl()] == nil {
			continue
		}
		if err := stream.Send(&discoveryv3.DiscoveryResponse{
			TypeUrl: req.GetTypeUrl(), VersionInfo: "1", Nonce: "1", Resources: []*anypb.Any{r.byType[req.GetTypeUrl()]},
		}); err != nil {
			return err
		}
	}
}

// resourcesFor are those of a service whose clients ask the agent.
func resourcesFor(t *testing.T, agent string, upstream *net.TCPAddr) map[string]*anypb.Any {
	t.Helper()
	listener := &listenerv3.Listener{}
	text := `{"name":"service","apiListener":{"apiListener":{
		"@type":"type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
		"routeConfig":{"name":"routes","virtualHosts":[{"name":"all","domains":["*"],"routes":[{"match":{"prefix":""},"route":{"cluster":"upstream"}}]}]},
		"httpFilters":[
			{"name":"ext_proc","typedConfig":{"@type":"type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
				"grpcService":{"googleGrpc":{"targetUri":"` + agent + `","channelCredentialsPlugin":[{"@type":"type.googleapis.com/envoy.extensions.grpc_service.channel_credentials.insecure.v3.InsecureCredentials"}]},
					"initialMetadata":[{"key":"scriptorium-script","value":"acme/d"},{"key":"scriptorium-response","value":"headers"}]},
				"requestAttributes":["request.method","request.path"],"processingMode":{"requestHeaderMode":"SEND","responseHeaderMode":"SEND"}}},
			{"name":"router","typedConfig":{"@type":"type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}}`
	if err := protojson.Unmarshal([]byte(text), listener); err != nil {
		t.Fatal(err)
	}
	cluster := &clusterv3.Cluster{
		Name: "upstream", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{EdsConfig: &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}},
	}
	endpoints := &endpointv3.ClusterLoadAssignment{}
	text = `{"clusterName":"upstream","endpoints":[{"locality":{"region":"r"},"loadBalancingWeight":1,"lbEndpoints":[{"endpoint":{"address":{"socketAddress":{"address":"127.0.0.1","portValue":1}}}}]}]}`
	if err := protojson.Unmarshal([]byte(text), endpoints); err != nil {
		t.Fatal(err)
	}
	endpoints.GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress().GetSocketAddress().PortSpecifier = &corev3.SocketAddress_PortValue{PortValue: uint32(upstream.Port)}
	byType := map[string]*anypb.Any{}
	for _, m := range []proto.Message{listener, cluster, endpoints} {
		packed, err := anypb.New(m)
		if err != nil {
			t.Fatal(err)
		}
		byType[packed.GetTypeUrl()] = packed
	}
	return byType
}
