package console

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/scriptorium-dev/scriptorium/proto/budget"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of one call.
const (
	maxMessage   = 4 << 20 // as the registry has it
	unaryTimeout = 2 * time.Minute
	// minCompressed is the size of the smallest answer that is worth compressing.
	minCompressed = 1 << 10
)

// services returns a handler for each method of the registry's service for people that is unary, or has a stream of answers.
// A browser cannot send a stream.
func (c *Console) services() map[string]http.Handler {
	handlers := map[string]http.Handler{}
	service := registryv1.File_proto_registry_v1_registry_proto.Services().ByName("Registry")
	methods := service.Methods()
	for i := range methods.Len() {
		m := methods.Get(i)
		if m.IsStreamingClient() {
			continue
		}
		path := "/" + string(service.FullName()) + "/" + string(m.Name())
		handlers[path] = c.method(path, m)
	}
	return handlers
}

// method passes the calls of a method on, as the bytes that they are.
func (c *Console) method(path string, m protoreflect.MethodDescriptor) http.Handler {
	options := []connect.HandlerOption{connect.WithReadMaxBytes(maxMessage), connect.WithCompressMinBytes(minCompressed), connect.WithOptions(codecs(m)...)}
	if m.IsStreamingServer() {
		return connect.NewServerStreamHandler(path, func(ctx context.Context, r *connect.Request[frame], to *connect.ServerStream[frame]) error {
			return c.failed(ctx, passStream(ctx, c.registry, path, r.Msg, to))
		}, options...)
	}
	return connect.NewUnaryHandler(path, func(ctx context.Context, r *connect.Request[frame]) (*connect.Response[frame], error) {
		ctx, cancel := context.WithTimeout(ctx, unaryTimeout)
		defer cancel()
		answer := new(frame)
		if err := c.registry.calls.Invoke(outgoing(ctx), path, r.Msg, answer, callOptions(ctx)...); err != nil {
			return nil, c.failed(ctx, err)
		}
		if !claimOf(ctx).Hold(int64(len(answer.data))) {
			return nil, failure(budget.ErrUnread)
		}
		return connect.NewResponse(answer), nil
	}, options...)
}

func passStream(ctx context.Context, registry *pool, path string, request *frame, to *connect.ServerStream[frame]) error {
	conn, release, err := registry.acquire()
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the registry's side, too, if the browser takes no more
	stream, err := conn.NewStream(outgoing(ctx), &grpc.StreamDesc{ServerStreams: true}, path, callOptions(ctx)...)
	if err != nil {
		return err
	}
	// io.EOF means that the stream has ended: RecvMsg says why.
	if err := errors.Join(stream.SendMsg(request), stream.CloseSend()); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for {
		answer := new(frame)
		switch err := stream.RecvMsg(answer); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		n := int64(len(answer.data))
		if !claimOf(ctx).Hold(n) {
			return budget.ErrUnread
		}
		if err := to.Send(answer); err != nil {
			return err
		}
		claimOf(ctx).Give(n)
	}
}

// failed says why a call failed. The session is over if its credentials are: the registry itself says PERMISSION_DENIED.
func (c *Console) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if why := context.Cause(ctx); why != nil && script.KindOf(why) != script.Internal && errors.Is(ctx.Err(), context.Canceled) {
		return failure(why)
	}
	if status.Code(err) == codes.Unauthenticated {
		if s := fromContext(ctx); s != nil {
			c.sessions.finish(s.key)
		}
		return failure(errNoSession)
	}
	if _, ok := errors.AsType[*script.Error](err); ok {
		return failure(err)
	}
	return connectError(err)
}

// outgoing returns the context of a call to the registry, which has nothing of the browser's headers.
func outgoing(ctx context.Context) context.Context { return metadata.NewOutgoingContext(ctx, nil) }

// callOptions pass bytes on, with the credentials of the session.
func callOptions(ctx context.Context) []grpc.CallOption {
	options := []grpc.CallOption{grpc.ForceCodec(bytesCodec{}), grpc.MaxCallRecvMsgSize(maxAnswer)}
	if s := fromContext(ctx); s != nil && s.credential != nil {
		options = append(options, grpc.PerRPCCredentials(s.credential))
	}
	return options
}

// connectError is the registry's error, with its details.
func connectError(err error) error {
	s := status.Convert(err)
	e := connect.NewError(connect.Code(s.Code()), errors.New(s.Message()))
	for _, detail := range s.Proto().GetDetails() {
		if d, err := connect.NewErrorDetail(detail); err == nil {
			e.AddDetail(d)
		}
	}
	return e
}
