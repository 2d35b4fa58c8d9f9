package console

import (
	"context"
	"errors"
	"io"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
)

// maxMessage is how large a request of a browser may be.
const maxMessage = 8 << 20

// services returns a handler for each method of the registry's service for people that is unary, or has a stream of answers.
// A browser cannot send a stream.
func services(registry grpc.ClientConnInterface) map[string]http.Handler {
	handlers := map[string]http.Handler{}
	service := registryv1.File_proto_registry_v1_registry_proto.Services().ByName("Registry")
	methods := service.Methods()
	for i := range methods.Len() {
		m := methods.Get(i)
		path := "/" + string(service.FullName()) + "/" + string(m.Name())
		if m.IsStreamingClient() {
			continue
		}
		handlers[path] = handler(registry, path, m)
	}
	return handlers
}

func handler(registry grpc.ClientConnInterface, path string, m protoreflect.MethodDescriptor) http.Handler {
	options := []connect.HandlerOption{
		connect.WithSchema(m),
		connect.WithReadMaxBytes(maxMessage),
		connect.WithRequestInitializer(func(_ connect.Spec, message any) error {
			if d, ok := message.(*dynamicpb.Message); ok {
				*d = *dynamicpb.NewMessage(m.Input())
			}
			return nil
		}),
	}
	if !m.IsStreamingServer() {
		return connect.NewUnaryHandler(path, func(ctx context.Context, r *connect.Request[dynamicpb.Message]) (*connect.Response[dynamicpb.Message], error) {
			answer := dynamicpb.NewMessage(m.Output())
			if err := registry.Invoke(outgoing(ctx), path, proto.Message(r.Msg), proto.Message(answer), callOptions(ctx)...); err != nil {
				return nil, connectError(err)
			}
			return connect.NewResponse(answer), nil
		}, options...)
	}
	return connect.NewServerStreamHandler(path, func(ctx context.Context, r *connect.Request[dynamicpb.Message], to *connect.ServerStream[dynamicpb.Message]) error {
		stream, err := registry.NewStream(outgoing(ctx), &grpc.StreamDesc{ServerStreams: true}, path, callOptions(ctx)...)
		if err != nil {
			return connectError(err)
		}
		if err := errors.Join(stream.SendMsg(proto.Message(r.Msg)), stream.CloseSend()); err != nil && !errors.Is(err, io.EOF) {
			return connectError(err)
		}
		for {
			answer := dynamicpb.NewMessage(m.Output())
			switch err := stream.RecvMsg(proto.Message(answer)); {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return connectError(err)
			}
			if err := to.Send(answer); err != nil {
				return err
			}
		}
	}, options...)
}

// outgoing returns the context of a call to the registry, which has nothing of the browser's headers.
func outgoing(ctx context.Context) context.Context { return metadata.NewOutgoingContext(ctx, nil) }

// callOptions are the credentials of the session.
func callOptions(ctx context.Context) []grpc.CallOption {
	if s, _ := ctx.Value(sessionKey{}).(*session); s != nil && s.credential != nil {
		return []grpc.CallOption{grpc.PerRPCCredentials(s.credential)}
	}
	return nil
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
