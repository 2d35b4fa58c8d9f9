package registryclient

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
)

// traceUnary and traceStream tell the registry the trace that the context is of.
func traceUnary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(withTrace(ctx), method, req, reply, conn, opts...)
}

func traceStream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return stream(withTrace(ctx), desc, conn, method, opts...)
}

func withTrace(ctx context.Context) context.Context {
	c := tracecontext.From(ctx)
	if !c.Valid() {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, tracecontext.Name, c.String())
}
