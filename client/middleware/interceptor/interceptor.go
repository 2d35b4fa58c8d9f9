// Package interceptor has a script decide about the calls of a gRPC server.
//
//	gate, err := middleware.New(decider, middleware.Rule{Script: "acme/gate"})
//	...
//	server := grpc.NewServer(grpc.UnaryInterceptor(interceptor.Unary(gate)), grpc.StreamInterceptor(interceptor.Stream(gate)))
//
// The script sees a request with the method POST, the path "/package.Service/Method", and the metadata as
// headers. It sees no messages. A decision can deny the call, and change the metadata that the handler
// gets and the headers that the client gets. A server of gRPC has no use for path, query and upstream;
// middleware.FromContext returns them to the handler.
package interceptor

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/scriptorium-dev/scriptorium/client/middleware"
)

// Unary returns an interceptor for calls with one message.
func Unary(gate *middleware.Gate) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		ctx, head, err := decide(ctx, gate, info.FullMethod)
		if len(head) > 0 {
			_ = grpc.SetHeader(ctx, head) // a call without a stream has no client
		}
		if err != nil {
			return nil, err
		}
		return handler(ctx, req)
	}
}

// Stream returns an interceptor for streams.
func Stream(gate *middleware.Gate) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		ctx, head, err := decide(stream.Context(), gate, info.FullMethod)
		if len(head) > 0 {
			if err := stream.SetHeader(head); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		return handler(srv, &decided{ServerStream: stream, ctx: ctx})
	}
}

// decided is a stream that a script has let go on.
type decided struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (d *decided) Context() context.Context { return d.ctx }

// decide returns the context of a call that goes on, the headers for the client, and the status of a call
// that is denied.
func decide(ctx context.Context, gate *middleware.Gate, method string) (context.Context, metadata.MD, error) {
	r, ip := request(ctx, method)
	d := gate.Decide(nil, r, ip)
	answer := http.Header{}
	d.Response.Apply(answer)
	head := metadata.MD{}
	for name, values := range answer {
		head.Set(strings.ToLower(name), printable(values)...)
	}
	if !d.Allow {
		message := strings.TrimSpace(d.Body)
		if message == "" {
			message = http.StatusText(d.Status)
		}
		return ctx, head, status.Error(codeOf(d), message)
	}
	in, _ := metadata.FromIncomingContext(ctx)
	in = in.Copy()
	changed := http.Header{}
	for name, values := range in {
		changed[http.CanonicalHeaderKey(name)] = values
	}
	middleware.DropOwn(changed)
	d.Request.Apply(changed)
	after := make(metadata.MD, len(changed))
	for name, values := range changed {
		after[strings.ToLower(name)] = values
	}
	return middleware.NewContext(metadata.NewIncomingContext(ctx, after), d), head, nil
}

// printable leaves out values that gRPC does not send: it takes printable ASCII alone.
func printable(values []string) []string {
	kept := values[:0]
	for _, value := range values {
		if strings.IndexFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
			kept = append(kept, value)
		}
	}
	return kept
}

// request describes the call as a request over HTTP.
func request(ctx context.Context, method string) (r *http.Request, ip string) {
	in, _ := metadata.FromIncomingContext(ctx)
	r = &http.Request{Method: http.MethodPost, URL: &url.URL{Path: method}, Header: make(http.Header, len(in)), Proto: "HTTP/2.0", ProtoMajor: 2}
	for name, values := range in {
		if name == ":authority" {
			r.Host = strings.Join(values, "")
		}
		if !strings.HasPrefix(name, ":") && !strings.HasSuffix(name, "-bin") { // a script has no use for bytes
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	client, ok := peer.FromContext(ctx)
	if !ok {
		return r.WithContext(ctx), ""
	}
	if host, _, err := net.SplitHostPort(client.Addr.String()); err == nil {
		ip = host
	}
	if secure, ok := client.AuthInfo.(credentials.TLSInfo); ok {
		r.TLS = new(tls.ConnectionState)
		*r.TLS = secure.State
	}
	return r.WithContext(ctx), ip
}

// codeOf returns the status of gRPC for that of HTTP, as docs/gateways/go.md lists them.
func codeOf(d *middleware.Decision) codes.Code {
	switch d.Status {
	case http.StatusBadRequest:
		return codes.InvalidArgument
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusNotFound:
		return codes.NotFound
	case http.StatusConflict:
		return codes.Aborted
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusNotImplemented:
		return codes.Unimplemented
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return codes.Unavailable
	case http.StatusGatewayTimeout:
		return codes.DeadlineExceeded
	case http.StatusInternalServerError:
		return codes.Internal
	}
	return codes.PermissionDenied // a redirect, or an answer with a body, is no answer to a call
}
