package interceptor_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/scriptorium-dev/scriptorium/client/middleware"
	"github.com/scriptorium-dev/scriptorium/client/middleware/interceptor"
	"github.com/scriptorium-dev/scriptorium/internal/local/localtest"
)

const gate = `function handle(request)
  local h = request.headers
  if request.path ~= "/grpc.health.v1.Health/Check" and request.path ~= "/grpc.health.v1.Health/Watch" then
    return { allow = false, status = 404 }
  end
  if h.token == "none" then return { allow = false, status = 401, body = "who are you?\n", response_headers = { set = { ["x-why"] = "token" } } } end
  if h.token == "answer" then return { allow = false, status = 200, body = "hello" } end
  if h.token == "fails" then error("a fault") end
  return { headers = { set = { ["x-user"] = h.token }, remove = { "token" } }, response_headers = { set = { ["x-app"] = request.host } },
    upstream = "canary" }
end`

// server serves health checks, and tells what its handlers get.
type server struct {
	*health.Server
	in      metadata.MD
	decided *middleware.Decision
}

func (s *server) note(ctx context.Context) {
	s.in, _ = metadata.FromIncomingContext(ctx)
	s.decided = middleware.FromContext(ctx)
}

func (s *server) Check(ctx context.Context, req *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	s.note(ctx)
	return s.Server.Check(ctx, req)
}

func (s *server) Watch(_ *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
	s.note(stream.Context())
	return stream.Send(&healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING})
}

// TestCalls are denied, or go on with other metadata, with one message and as streams.
func TestCalls(t *testing.T) {
	w := localtest.Start(t, 0)
	a := w.Embed(t, "shop")
	w.Publish(t, localtest.Manifest("gate", gate), 1)
	g, err := middleware.New(a, middleware.Rule{Script: "acme/gate"})
	if err != nil {
		t.Fatal(err)
	}
	service := &server{Server: health.NewServer()}
	grpcServer := grpc.NewServer(grpc.UnaryInterceptor(interceptor.Unary(g)), grpc.StreamInterceptor(interceptor.Stream(g)))
	healthpb.RegisterHealthServer(grpcServer, service)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = grpcServer.Serve(l) }()
	t.Cleanup(grpcServer.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	client := healthpb.NewHealthClient(conn)
	calls := map[string]func(ctx context.Context, head *metadata.MD) error{
		"unary": func(ctx context.Context, head *metadata.MD) error {
			_, err := client.Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Header(head))
			return err
		},
		"stream": func(ctx context.Context, head *metadata.MD) error {
			stream, err := client.Watch(ctx, &healthpb.HealthCheckRequest{})
			if err != nil {
				return err
			}
			if *head, err = stream.Header(); err != nil {
				return err
			}
			_, err = stream.Recv()
			return err
		},
	}
	for name, call := range calls {
		for _, tt := range []struct {
			token   string
			code    codes.Code
			message string
		}{
			{"ann", codes.OK, ""},
			{"none", codes.Unauthenticated, "who are you?"},
			{"answer", codes.PermissionDenied, "hello"},
			{"fails", codes.Unavailable, "no decision"},
		} {
			service.in, service.decided = nil, nil
			head := metadata.MD{}
			err := call(metadata.AppendToOutgoingContext(t.Context(), "token", tt.token, "x-user", "mallory", "scriptorium-path", "/x", "raw-bin", "\x00"), &head)
			if status.Code(err) != tt.code || status.Convert(err).Message() != tt.message {
				t.Errorf("%s, %s: %v, want %v", name, tt.token, err, tt.code)
			}
			if tt.code != codes.OK {
				if service.in != nil {
					t.Errorf("%s, %s: the handler gets a call that is denied", name, tt.token)
				}
				continue
			}
			in := service.in
			if user := strings.Join(in["x-user"], "+"); user != "ann" || len(in["token"])+len(in["scriptorium-path"]) > 0 || len(in["raw-bin"]) != 1 || service.decided.Upstream != "canary" {
				t.Errorf("%s: the handler gets %v, %+v", name, in, service.decided)
			}
			if app := strings.Join(head["x-app"], ""); app != l.Addr().String() {
				t.Errorf("%s: the client gets %v", name, head)
			}
		}
	}
}
