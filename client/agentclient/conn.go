package agentclient

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	agentv1 "github.com/scriptorium-dev/scriptorium/proto/agent/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// conn is one connection. Its calls go over streams that are kept open, since a
// message on a stream costs about half of what a unary call costs.
type conn struct {
	cc  *grpc.ClientConn
	api agentv1.ExecutorClient
	// ctx is the streams': it ends at close.
	ctx    context.Context
	cancel context.CancelFunc
	// turns has room for the calls that may be in flight.
	turns chan struct{}

	mu   sync.Mutex
	idle []*stream // the last used one last: it is the warmest
}

// stream carries one call at a time.
type stream struct {
	rpc    grpc.BidiStreamingClient[agentv1.ExecuteStreamRequest, agentv1.ExecuteStreamResponse]
	cancel context.CancelFunc
	lastID uint64
}

func newConn(cc *grpc.ClientConn, concurrency int) *conn {
	c := &conn{cc: cc, api: agentv1.NewExecutorClient(cc), turns: make(chan struct{}, concurrency)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

func (c *conn) close() error {
	c.cancel()
	return c.cc.Close()
}

// call sends req and returns its answer. begun is false if the script certainly
// was not run.
func (c *conn) call(ctx context.Context, req *agentv1.ExecuteStreamRequest) (resp *agentv1.ExecuteResponse, begun bool, err error) {
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
	case <-ctx.Done():
		return nil, false, contextError(ctx)
	}
	s, err := c.take(ctx)
	if err != nil {
		return nil, false, err
	}
	stop := context.AfterFunc(ctx, s.cancel)
	outcome, begun, err := s.exchange(req)
	switch alive := stop(); {
	case err != nil:
		s.cancel()
		if !alive || ctx.Err() != nil {
			return nil, begun, contextError(ctx)
		}
		c.dropIdle() // what ended one stream has usually ended them all
		return nil, begun, err
	case alive:
		c.give(s)
	}
	if failure := wire.ToError(outcome.GetError()); failure != nil {
		if failure.Kind == script.Timeout && ctx.Err() != nil {
			failure.Err = context.Cause(ctx)
		}
		return nil, true, failure
	}
	return outcome.GetResponse(), true, nil
}

// take returns an idle stream, or opens one.
func (c *conn) take(ctx context.Context) (*stream, error) {
	c.mu.Lock()
	if last := len(c.idle) - 1; last >= 0 {
		s := c.idle[last]
		c.idle = c.idle[:last]
		c.mu.Unlock()
		return s, nil
	}
	c.mu.Unlock()
	return c.open(ctx)
}

func (c *conn) give(s *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, s)
}

func (c *conn) dropIdle() {
	c.mu.Lock()
	idle := c.idle
	c.idle = nil
	c.mu.Unlock()
	for _, s := range idle {
		s.cancel()
	}
}

// open opens a stream.
func (c *conn) open(ctx context.Context) (*stream, error) {
	streamCtx, cancel := context.WithCancel(c.ctx)
	stop := context.AfterFunc(ctx, cancel)
	rpc, err := c.api.ExecuteStream(streamCtx)
	if !stop() {
		cancel()
		return nil, contextError(ctx)
	}
	if err != nil {
		cancel()
		return nil, wire.FromStatus(err)
	}
	return &stream{rpc: rpc, cancel: cancel}, nil
}

// exchange sends req and receives its outcome.
func (s *stream) exchange(req *agentv1.ExecuteStreamRequest) (outcome *agentv1.ExecuteStreamResponse, begun bool, err error) {
	s.lastID++
	req.Id = s.lastID
	if err := s.rpc.Send(req); err != nil {
		// It was not sent: the stream had ended before.
		if errors.Is(err, io.EOF) {
			_, err = s.rpc.Recv()
		}
		return nil, false, streamError(err)
	}
	outcome, err = s.rpc.Recv()
	if err != nil {
		return nil, !isRefusal(err), streamError(err)
	}
	if outcome.GetId() != req.GetId() {
		return nil, true, script.Errorf(script.Internal, "", "the agent answered call %d, not %d", outcome.GetId(), req.GetId())
	}
	return outcome, true, nil
}

// isRefusal reports whether the agent itself ended the stream as Unavailable. It
// then began no call that it did not answer.
func isRefusal(err error) bool {
	for _, detail := range status.Convert(err).Details() {
		if m, ok := detail.(*scriptv1.Error); ok {
			return script.Kind(m.GetKind()) == script.Unavailable
		}
	}
	return false
}

// streamError returns the *script.Error for the error that ended a stream.
func streamError(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return script.Errorf(script.Unavailable, "", "the agent ended the stream")
	}
	return wire.FromStatus(err)
}
