package grpcguard

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
)

// stream is one call. The connection's mutex guards what changes.
type stream struct {
	conn     *conn
	id       uint32
	stranger bool
	single   bool // the caller sends one message

	endMu   sync.Mutex
	refused error // the answer to the call; nil if it is served
	served  ender // nil until its handler begins

	claim  budget.Claim
	closed bool
	base   int64 // bytes that the call itself is charged for

	// The messages that have arrived: their memory, and how much of the next is missing.
	partial  int64 // of the message that is not complete
	ready    int64 // of those that are
	messages int64
	reading  int64 // of the one that the handler has
	decoded  int64 // of what that was decoded into
	prefix   [5]byte
	have     int // bytes of the prefix
	missing  int // bytes of the message

	unread  int64 // bytes of replies that wait
	charged int64 // of all of these, besides base
}

type streamKey struct{}

// ender is what gRPC has of a call. Its first status is the answer, and ends the call's context.
type ender interface{ WriteStatus(*status.Status) error }

// GiveUp implements budget.Holder.
func (s *stream) GiveUp(err error) {
	if s.stranger {
		go s.conn.cut(err)
		return
	}
	s.endMu.Lock()
	defer s.endMu.Unlock()
	s.refused = err
	if s.served != nil {
		go s.answer(err)
	}
}

// answer answers the call, whose handler has begun.
func (s *stream) answer(err error) {
	if s.served != nil {
		_ = s.served.WriteStatus(status.Convert(wire.ToStatus(err)))
	}
}

// serve returns the call of a context, which every call of a guarded server has, and its answer
// if it is not to be served.
func serve(ctx context.Context) (*stream, error) {
	s := ctx.Value(streamKey{}).(*stream)
	s.endMu.Lock()
	defer s.endMu.Unlock()
	s.served, _ = grpc.ServerTransportStreamFromContext(ctx).(ender)
	return s, wire.ToStatus(s.refused)
}

func (s *stream) await() { s.claim.Await(time.Now().Add(s.conn.guard.cfg.RequestTimeout)) }

// begin takes the header of a frame with so many bytes, for which gRPC then has a buffer. It
// reports whether the connection can go on.
func (s *stream) begin(n int) bool {
	s.await()
	s.partial += bufferOf(n)
	if s.stranger && s.partial+s.ready > strangerBytes {
		return false
	}
	return s.charge()
}

// bufferOf returns the size of the buffer that gRPC has for a frame.
func bufferOf(n int) int64 {
	const item = 128 // of a queue
	switch {
	case n <= 1<<10:
		return int64(n) + item
	case n <= 4<<10:
		return 4<<10 + item
	default:
		return 16<<10 + item
	}
}

// take takes bytes of messages.
func (s *stream) take(p []byte) {
	for len(p) > 0 {
		if s.missing > 0 {
			n := min(s.missing, len(p))
			s.missing, p = s.missing-n, p[n:]
		} else {
			n := copy(s.prefix[s.have:], p)
			s.have, p = s.have+n, p[n:]
			if s.have < len(s.prefix) {
				return
			}
			s.have, s.missing = 0, int(binary.BigEndian.Uint32(s.prefix[1:]))
		}
		if s.missing == 0 {
			s.messages++
			s.ready, s.partial = s.ready+s.partial, 0
		}
	}
}

// settle is for the end of a frame.
func (s *stream) settle() {
	complete := s.have == 0 && s.missing == 0
	if complete && !s.stranger && (!s.single || s.messages > 0) {
		s.claim.Arrived()
	}
}

// holds returns what the call holds now, besides base.
func (s *stream) holds() int64 { return s.partial + s.ready + s.reading + s.decoded + s.unread }

// charge takes what the call holds now, and reports whether the connection can go on.
func (s *stream) charge() bool {
	if s.closed {
		return true
	}
	due := max(0, s.holds()-freeBytes) - s.charged
	s.charged += due
	if due > 0 {
		return s.claim.Take(due)
	}
	if due < 0 {
		s.claim.Give(-due)
	}
	return true
}

// reserve makes room for more bytes that the call is about to hold, and reports whether it could.
func (s *stream) reserve(n int64) bool {
	due := max(0, s.holds()+n-freeBytes) - s.charged
	if due > 0 {
		if !s.claim.Try(due) {
			return false
		}
		s.charged += due
	}
	return true
}

// decodes makes room for what a message is decoded into, and reports whether it could.
func (s *stream) decodes(n int64) bool {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if s.closed {
		return true // gRPC knows
	}
	if !s.reserve(n) {
		return false
	}
	s.decoded += n
	return true
}

// read moves the message that the handler gets next from those that are ready.
func (s *stream) read() {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if s.messages > 0 {
		s.reading = s.ready / s.messages
		s.ready -= s.reading
		s.messages--
	}
}

// Hold charges the call of ctx for n bytes more that its handler keeps, until the call ends. It
// reports whether there was room.
func Hold(ctx context.Context, n int64) bool {
	s := ctx.Value(streamKey{}).(*stream)
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return s.closed || s.claim.Try(n) // gRPC knows that it is closed
}

// done frees the message that the handler had.
func (s *stream) done() {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.reading, s.decoded = 0, 0
	s.charge()
}

// send makes room for a reply.
func (s *stream) send(reply any) error {
	m, ok := reply.(proto.Message)
	if !ok {
		return nil
	}
	n := int64(proto.Size(m) + len(s.prefix))
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.closed {
		return nil // gRPC knows
	}
	if !s.reserve(n) {
		return budget.ErrUnread
	}
	if c.unread == 0 {
		c.moved = time.Now()
	}
	s.unread, c.unread = s.unread+n, c.unread+n
	return nil
}

// sent takes bytes of replies that were sent.
func (s *stream) sent(n int64) {
	n = min(n, s.unread)
	s.unread -= n
	s.conn.unread -= n
	s.conn.moved = time.Now()
	s.charge()
}

// RegisterService implements grpc.ServiceRegistrar.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, service any) {
	guarded := *desc
	guarded.Methods = slices.Clone(desc.Methods)
	for i := range guarded.Methods {
		m := &guarded.Methods[i]
		method := "/" + desc.ServiceName + "/" + m.MethodName
		s.guard.single[method] = true
		m.Handler = unary(method, m.Handler)
	}
	for _, m := range desc.Streams {
		s.guard.single["/"+desc.ServiceName+"/"+m.StreamName] = !m.ClientStreams
	}
	s.Server.RegisterService(&guarded, service)
}

// unary returns the handler of a unary method that looks first whether the call is refused.
func unary(method string, next grpc.MethodHandler) grpc.MethodHandler {
	return func(service any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		s, refused := serve(ctx)
		if refused != nil {
			refuse := func(context.Context, any) (any, error) { return nil, refused }
			if intercept == nil {
				return refuse(ctx, nil)
			}
			return intercept(ctx, nil, &grpc.UnaryServerInfo{Server: service, FullMethod: method}, refuse)
		}
		receive := func(m any) error { return s.receive(m, decode) }
		reply, err := next(service, ctx, receive, intercept)
		if err != nil {
			return nil, err
		}
		if err := s.send(reply); err != nil {
			return nil, wire.ToStatus(err)
		}
		return reply, nil
	}
}

// intercept is the innermost interceptor of streams.
func intercept(service any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	s, refused := serve(ss.Context())
	if refused != nil {
		return refused
	}
	return next(service, guardedStream{ServerStream: ss, stream: s})
}

// guardedStream charges for the messages of a call.
type guardedStream struct {
	grpc.ServerStream
	stream *stream
}

// RecvMsg implements grpc.ServerStream. The message before is done with.
func (g guardedStream) RecvMsg(m any) error {
	g.stream.done()
	if err := g.stream.receive(m, g.ServerStream.RecvMsg); err != nil {
		return err
	}
	g.stream.read()
	return nil
}

// SendMsg implements grpc.ServerStream.
func (g guardedStream) SendMsg(m any) error {
	if err := g.stream.send(m); err != nil {
		return wire.ToStatus(err)
	}
	return g.ServerStream.SendMsg(m)
}
