package sim

import (
	"context"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/access"
)

// services are what a replica serves, by the full names of their methods.
type services struct {
	methods map[string]method
}

type method struct {
	service any
	handle  grpc.StreamHandler
}

var _ grpc.ServiceRegistrar = (*services)(nil)

// RegisterService implements grpc.ServiceRegistrar.
func (s *services) RegisterService(desc *grpc.ServiceDesc, service any) {
	if s.methods == nil {
		s.methods = map[string]method{}
	}
	for _, d := range desc.Streams {
		s.methods["/"+desc.ServiceName+"/"+d.StreamName] = method{service: service, handle: d.Handler}
	}
}

// callFaults say what happens to the calls of an agent to the registry.
type callFaults struct {
	refuse bool          // nobody answers the door
	hang   bool          // what is sent waits until that is over
	slow   time.Duration // at most, of each message
	cut    float64       // chance that a stream breaks at a message
	tamper float64       // chance that somebody changes a message
}

// channel is an agent's connection to the registry: gRPC, as far as streams go. It
// takes any replica that lives.
type channel struct {
	w    *world
	name string

	mu      sync.Mutex
	faults  callFaults
	count   uint64
	last    time.Time
	parked  []func()
	streams map[*stream]struct{}
	tape    [][]byte // pages that went by
}

var _ grpc.ClientConnInterface = (*channel)(nil)

func newChannel(w *world, name string) *channel {
	return &channel{w: w, name: name, streams: map[*stream]struct{}{}}
}

var errNoRegistry = status.Error(codes.Unavailable, "connection refused")

// set changes the faults. Connections that are refused from now on break; those that
// hang no more go on.
func (c *channel) set(f callFaults) {
	c.mu.Lock()
	c.faults = f
	parked, broken := c.parked, []*stream{}
	if !f.hang {
		c.parked = nil
	}
	if f.refuse {
		for s := range c.streams {
			broken = append(broken, s)
		}
	}
	c.mu.Unlock()
	for _, s := range broken {
		s.end(errNoRegistry)
	}
	if f.hang {
		return
	}
	for _, do := range parked {
		do()
	}
}

// carry does something on the other side, some time later, in order.
func (c *channel) carry(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	r := source(c.w.seed, c.name, c.count)
	at := time.Now().Add(latency + within(r, c.faults.slow))
	if at.Before(c.last) {
		at = c.last
	}
	c.last = at
	c.w.line.at(at, func() {
		c.mu.Lock()
		if c.faults.hang {
			c.parked = append(c.parked, do)
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		do()
	})
}

// chance returns what is random about the next message, and the faults.
func (c *channel) chance() (*rand.Rand, callFaults) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	return source(c.w.seed, c.name+" faults", c.count), c.faults
}

// Invoke implements grpc.ClientConnInterface.
func (c *channel) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return status.Error(codes.Unimplemented, "the simulation has streams alone")
}

// NewStream implements grpc.ClientConnInterface.
func (c *channel) NewStream(ctx context.Context, _ *grpc.StreamDesc, name string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	r, faults := c.chance()
	if faults.refuse {
		return nil, errNoRegistry
	}
	server := c.w.anyServer(r)
	if server == nil {
		return nil, errNoRegistry
	}
	m, ok := server.services.methods[name]
	if !ok {
		return nil, status.Error(codes.Unimplemented, name)
	}
	serving, cancel := context.WithCancel(server.life)
	s := &stream{channel: c, ctx: ctx, serving: access.NewContext(serving, access.Everybody("sim")), cancel: cancel}
	s.requests.init()
	s.answers.init()
	c.mu.Lock()
	c.streams[s] = struct{}{}
	c.mu.Unlock()
	context.AfterFunc(ctx, func() { s.end(status.FromContextError(ctx.Err()).Err()) })
	context.AfterFunc(server.life, func() { s.end(errNoRegistry) })
	c.w.running.Go(func() {
		err := m.handle(m.service, (*served)(s))
		if err == nil {
			err = io.EOF
		} else {
			err = wire.ToStatus(err)
		}
		c.carry(func() { s.end(err) })
	})
	return (*called)(s), nil
}

// stream is one call.
type stream struct {
	channel           *channel
	ctx               context.Context // of the caller
	serving           context.Context // of the replica
	cancel            context.CancelFunc
	requests, answers mailbox
	nonce             []byte // of a Pull
}

// end is how the caller sees the call end.
func (s *stream) end(err error) {
	s.answers.close(err)
	s.requests.close(err)
	s.cancel()
	s.channel.mu.Lock()
	defer s.channel.mu.Unlock()
	delete(s.channel.streams, s)
}

// mailbox keeps messages in order until it is closed.
type mailbox struct {
	signal chan struct{}
	mu     sync.Mutex
	list   [][]byte
	err    error
}

func (b *mailbox) init() { b.signal = make(chan struct{}, 1) }

func (b *mailbox) put(data []byte) {
	b.mu.Lock()
	if b.err == nil {
		b.list = append(b.list, data)
	}
	b.mu.Unlock()
	b.ring()
}

func (b *mailbox) close(err error) {
	b.mu.Lock()
	if b.err == nil {
		b.err = err
	}
	b.mu.Unlock()
	b.ring()
}

func (b *mailbox) ring() {
	select {
	case b.signal <- struct{}{}:
	default:
	}
}

func (b *mailbox) take(ctx context.Context) ([]byte, error) {
	for {
		b.mu.Lock()
		if len(b.list) > 0 {
			data := b.list[0]
			b.list = b.list[1:]
			b.mu.Unlock()
			return data, nil
		}
		err := b.err
		b.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-b.signal:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
}

// called is the caller's side of a stream.
type called stream

func (s *called) Header() (metadata.MD, error) { return nil, nil }
func (s *called) Trailer() metadata.MD         { return nil }
func (s *called) CloseSend() error             { return nil }
func (s *called) Context() context.Context     { return s.ctx }

func (s *called) SendMsg(m any) error {
	data, err := proto.Marshal(m.(proto.Message))
	if err != nil {
		return err
	}
	s.channel.carry(func() {
		s.requests.put(data)
		s.requests.close(io.EOF)
	})
	return nil
}

func (s *called) RecvMsg(m any) error {
	data, err := s.answers.take(s.ctx)
	if err != nil {
		return err
	}
	return proto.Unmarshal(data, m.(proto.Message))
}

// served is the replica's side of a stream.
type served stream

func (s *served) SetHeader(metadata.MD) error  { return nil }
func (s *served) SendHeader(metadata.MD) error { return nil }
func (s *served) SetTrailer(metadata.MD)       {}
func (s *served) Context() context.Context     { return s.serving }

func (s *served) RecvMsg(m any) error {
	data, err := s.requests.take(s.serving)
	if err != nil {
		return err
	}
	if pull, ok := m.(*registryv1.PullRequest); ok {
		defer func() { s.nonce = pull.GetNonce() }()
	}
	return proto.Unmarshal(data, m.(proto.Message))
}

func (s *served) SendMsg(m any) error {
	if err := s.serving.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	data, err := proto.Marshal(m.(proto.Message))
	if err != nil {
		return err
	}
	r, faults := s.channel.chance()
	if r.Float64() < faults.cut {
		s.channel.carry(func() { (*stream)(s).end(status.Error(codes.Unavailable, "connection reset by peer")) })
		return nil
	}
	if alter := s.channel.w.bugs.pages; alter != nil {
		data = alter(s.channel.w, s.channel, s.nonce, data)
	}
	s.channel.record(data)
	if r.Float64() < faults.tamper {
		data = s.channel.tampered(r, data)
	}
	s.channel.carry(func() { s.answers.put(data) })
	return nil
}

// record remembers what went by, for those who forge.
func (c *channel) record(data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tape = append(c.tape, data)
	c.tape = c.tape[max(0, len(c.tape)-tapeLength):]
}

// overheard returns one of the messages that went by; nil if there is none.
func (c *channel) overheard(r *rand.Rand) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.tape) == 0 {
		return nil
	}
	return c.tape[r.IntN(len(c.tape))]
}
