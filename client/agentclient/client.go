// Package agentclient runs scripts on the agent beside the program that imports
// it: a gateway, a proxy, a service. It speaks gRPC over the agent's Unix socket.
//
//	client, err := agentclient.New("/run/scriptorium/grpc.sock")
//	...
//	result, err := client.Call(ctx, "acme/route", map[string]any{"path": "/"})
//	var decision struct{ Upstream string }
//	err = result.Decode(0, &decision)
//
// A failed call is a *script.Error: its Kind says whether the script is missing
// (NotFound), raised an error (Script), ran out of time (Timeout) and so on.
package agentclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/scriptorium-dev/scriptorium/proto/agent/v1"
	"github.com/scriptorium-dev/scriptorium/proto/target"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Client calls scripts of one agent. It is safe for concurrent use.
type Client struct {
	opts  options
	conns []*conn
	next  atomic.Uint64 // the connection that the next call takes, by turns
}

type options struct {
	connections int
	concurrency int
	timeout     time.Duration
	attempts    int
}

// Option changes how a Client works.
type Option func(*options)

// WithConnections sets how many connections are opened to the agent, the most
// there ever are; 2 unless set. One is enough for some ten thousand calls a second.
func WithConnections(n int) Option { return func(o *options) { o.connections = n } }

// WithConcurrency sets how many calls may be in flight at a time over each
// connection; 64 unless set. A call beyond that waits for its turn.
func WithConcurrency(n int) Option { return func(o *options) { o.concurrency = n } }

// WithTimeout bounds calls whose context has no deadline; 15 s unless set, which
// is longer than any script may run.
func WithTimeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// WithAttempts sets how often a call is tried; 3 unless set, 1 for no retry. A
// call is only tried again if it certainly did not begin: the agent could not be
// reached, or was shutting down and said so.
func WithAttempts(n int) Option { return func(o *options) { o.attempts = n } }

// New returns a Client of the agent at socket: the path of its grpc.sock, with or
// without "unix:" before it. It does not connect yet: an agent that is not there
// shows at the first call, and one that comes back is found again.
func New(socket string, opts ...Option) (*Client, error) {
	o := options{connections: 2, concurrency: 64, timeout: 15 * time.Second, attempts: 3}
	for _, opt := range opts {
		opt(&o)
	}
	if !strings.HasPrefix(socket, "unix:") {
		socket = "unix:" + socket
	}
	endpoint, dial, err := target.Parse(socket)
	if err != nil {
		return nil, err
	}
	if o.connections < 1 || o.concurrency < 1 || o.attempts < 1 || o.timeout <= 0 {
		return nil, script.Errorf(script.Invalid, "options", "connections, concurrency, attempts and timeout must be positive")
	}
	c := &Client{opts: o}
	for range o.connections {
		cc, err := grpc.NewClient(endpoint, append(dial,
			grpc.WithTransportCredentials(insecure.NewCredentials()), // the kernel vouches for both ends
			grpc.WithConnectParams(grpc.ConnectParams{
				// The agent is on this machine: trying again costs next to nothing. A tenant's
				// process, which has a lower priority, may answer late on a busy machine.
				Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 200 * time.Millisecond},
				MinConnectTimeout: 5 * time.Second,
			}),
		)...)
		if err != nil {
			_ = c.Close()
			return nil, script.Errorf(script.Invalid, "target", "%q: %w", socket, err)
		}
		c.conns = append(c.conns, newConn(cc, o.concurrency))
	}
	return c, nil
}

// Close closes the connections. Calls in flight fail.
func (c *Client) Close() error {
	var first error
	for _, conn := range c.conns {
		if err := conn.close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Call runs the script ref ("tenant/name", or "tenant/name@7" for one version)
// with the arguments and returns what it returned. Each argument is encoded by
// encoding/json; a json.RawMessage goes as it is.
//
// Call returns when ctx is done, and the agent stops the script then; the error
// is a Timeout whoever of the two noticed first. All errors are *script.Error.
func (c *Client) Call(ctx context.Context, ref string, args ...any) (*Result, error) {
	encoded, err := Encode(args)
	if err != nil {
		return nil, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.opts.timeout)
		defer cancel()
	}
	req := &agentv1.ExecuteStreamRequest{
		Call:        &agentv1.ExecuteRequest{Script: ref, Args: encoded, Key: keyOf(ctx)},
		Traceparent: traceparentOf(ctx),
	}
	first := c.next.Add(1)
	for attempt := 1; ; attempt++ {
		if deadline, ok := ctx.Deadline(); ok {
			req.Timeout = durationpb.New(time.Until(deadline))
		}
		// Each attempt takes another connection: one may be back before the others.
		conn := c.conns[(first+uint64(attempt))%uint64(len(c.conns))]
		resp, begun, err := conn.call(ctx, req)
		switch {
		case err == nil:
			return resultOf(resp)
		case begun || attempt >= c.opts.attempts || !wait(ctx, attempt):
			return nil, err
		}
	}
}

// wait waits before another attempt, and reports whether there is time for it.
func wait(ctx context.Context, attempt int) bool {
	timer := time.NewTimer(time.Duration(attempt) * 20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// contextError returns the error of a call whose ctx is done. Its cause is ctx's.
func contextError(ctx context.Context) error {
	cause := context.Cause(ctx)
	e := &script.Error{Kind: script.Timeout, Err: cause}
	switch {
	case errors.Is(cause, context.DeadlineExceeded):
		e.Message = "the call's time ran out"
	case errors.Is(cause, context.Canceled):
		e.Message = "the call was canceled by its caller"
	default:
		e.Message = "the call was given up by its caller: " + cause.Error()
	}
	return e
}

// ListOptions choose scripts. The zero ListOptions choose all.
type ListOptions struct {
	Tenant string // only those of the tenant
	Event  string // only those with the trigger event
}

// Script is a script as the agent runs it.
type Script struct {
	Name     script.Name
	Revision script.Revision
	Active   script.Version
	Pinned   bool
	Enabled  bool
	Trigger  script.Trigger
}

// List returns the scripts that the caller may run, in the order of "tenant/name".
func (c *Client) List(ctx context.Context, choose ListOptions) ([]Script, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.timeout)
	defer cancel()
	resp, err := c.conns[0].api.List(ctx, &agentv1.ListRequest{Tenant: choose.Tenant, Event: choose.Event})
	if err != nil {
		if ctx.Err() != nil {
			return nil, contextError(ctx)
		}
		return nil, wire.FromStatus(err)
	}
	list := make([]Script, 0, len(resp.GetScripts()))
	for _, m := range resp.GetScripts() {
		active, err := wire.ToVersion(m.GetActive())
		if err != nil {
			return nil, fmt.Errorf("the agent lists %s/%s: %w", m.GetTenant(), m.GetName(), err)
		}
		list = append(list, Script{
			Name:     script.Name{Tenant: m.GetTenant(), Script: m.GetName()},
			Revision: script.Revision(m.GetRevision()),
			Active:   active,
			Pinned:   m.GetPinned(),
			Enabled:  m.GetEnabled(),
			Trigger:  wire.ToTrigger(m.GetTrigger()),
		})
	}
	return list, nil
}

type traceparentKey struct{}

// ContextWithTraceparent returns a context whose calls carry the W3C trace
// context to the agent. Without it they carry that of the OpenTelemetry span in the context, if there is one.
func ContextWithTraceparent(ctx context.Context, traceparent string) context.Context {
	return context.WithValue(ctx, traceparentKey{}, traceparent)
}

type rolloutKey struct{}

// ContextWithKey returns a context whose calls carry a key, such as the id of a user. In a rollout by
// key, calls with the same key run the same version on each agent.
func ContextWithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, rolloutKey{}, key)
}

func keyOf(ctx context.Context) string {
	key, _ := ctx.Value(rolloutKey{}).(string)
	return key
}

func traceparentOf(ctx context.Context) string {
	if traceparent, ok := ctx.Value(traceparentKey{}).(string); ok {
		return traceparent
	}
	return tracecontext.From(ctx).String()
}
