// Package registryclient is the Go client of a registry: it publishes scripts,
// pins and rolls them back, and says how far they have come on the fleet.
//
// Every error is a *script.Error: its Kind says what happened (NotFound,
// Invalid, Script for a source that does not compile, Conflict, Denied,
// Unavailable for a registry that cannot be reached, Timeout for a context that
// ended), and its Field and Line where.
//
// A registry that cannot be reached is asked again for about a second, whatever is
// asked of it. That is safe for writes as well: each carries an id, by which the
// registry makes it once, however often it is sent (a registry that speaks protocol 1
// does not know ids yet). A write that ends in Unavailable or Timeout has happened
// once or not at all; who wants to know sends it again with the same
// Write.RequestID, within an hour. Writes of values and of tenants' settings have no
// id: see DataWrite.
//
// A context of a W3C trace, such as that of a span of OpenTelemetry, goes to the registry with each request:
// what the registry and its agents do about it is part of the trace.
//
// Who shares a script with other writers sets ExpectedRevision, so that nobody
// undoes what another one did without having seen it.
package registryclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/credentials/local"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/scriptorium-dev/scriptorium/proto/bearer"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/target"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// DefaultTimeout bounds a call whose context has no deadline.
const DefaultTimeout = 10 * time.Second

// maxMessage is the largest answer that is accepted: a page of a thousand
// releases with large settings is one message.
const maxMessage = 64 << 20

// Client speaks to one registry, or to any of its replicas behind one target.
// It is safe for concurrent use; all calls share one connection, which is made
// when it is first needed and made again when it breaks.
type Client struct {
	target   string
	timeout  time.Duration
	advice   string // see WithAdvice
	conn     *grpc.ClientConn
	registry registryv1.RegistryClient

	answered atomic.Bool // to somebody who follows
}

// Option changes how Dial makes a client.
type Option func(*options)

type options struct {
	timeout time.Duration
	advice  string
	creds   credentials.TransportCredentials
	dial    []grpc.DialOption
}

// WithTimeout sets what bounds a call whose context has no deadline, in place
// of DefaultTimeout. It does not bound WatchStatus.
func WithTimeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// WithAdvice adds to the error of a registry that does not answer what the caller can
// check, such as where the address was set.
func WithAdvice(text string) Option { return func(o *options) { o.advice = text } }

// WithTransportCredentials secures the connection. Without it, or WithTLS, there is
// no encryption: right for a Unix socket, and for a network that is trusted.
func WithTransportCredentials(creds credentials.TransportCredentials) Option {
	return func(o *options) { o.creds = creds }
}

// WithTLS secures the connection: with the certificates that config believes in
// (RootCAs) and shows (Certificates, GetClientCertificate), and TLS 1.3 unless it says
// otherwise.
func WithTLS(config *tls.Config) Option {
	config = config.Clone()
	if config.MinVersion == 0 {
		config.MinVersion = tls.VersionTLS13
	}
	return WithTransportCredentials(credentials.NewTLS(config))
}

// WithToken shows the registry a bearer token with each call. token is asked for it
// each time: it may change. The connection has to be secured, or a Unix socket.
func WithToken(token func() (string, error)) Option {
	return WithDialOptions(grpc.WithPerRPCCredentials(bearer.Credentials(token, false)))
}

// WithDialOptions adds gRPC options, such as interceptors.
func WithDialOptions(dial ...grpc.DialOption) Option {
	return func(o *options) { o.dial = append(o.dial, dial...) }
}

// Dial returns a client of the registry at address, "unix:PATH" or "host:port".
// It does not connect yet: the first call does. The caller closes the client.
func Dial(address string, opts ...Option) (*Client, error) {
	endpoint, socket, err := target.Parse(address)
	if err != nil {
		return nil, err
	}
	o := options{timeout: DefaultTimeout, creds: insecure.NewCredentials()}
	if len(socket) > 0 {
		o.creds = local.NewCredentials() // what goes over a Unix socket stays on this machine
	}
	for _, opt := range opts {
		opt(&o)
	}
	dial := append([]grpc.DialOption{
		grpc.WithTransportCredentials(o.creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// A connection that is gone without a word must not hang a watch for ever. The
		// registry allows a ping every 5 s.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithChainUnaryInterceptor(retry.UnaryClientInterceptor(
			retry.WithCodes(codes.Unavailable),
			retry.WithBackoff(retry.BackoffExponentialWithJitterBounded(100*time.Millisecond, 0.2, time.Second)),
		), traceUnary),
		grpc.WithChainStreamInterceptor(traceStream),
	}, socket...)
	conn, err := grpc.NewClient(endpoint, append(dial, o.dial...)...)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "target", "%q cannot be dialled: %w", address, err)
	}
	return &Client{target: address, timeout: o.timeout, advice: o.advice, conn: conn, registry: registryv1.NewRegistryClient(conn)}, nil
}

// Close ends the connection. Calls in flight fail.
func (c *Client) Close() error { return c.conn.Close() }

// attempts is how often a call is made at most.
const attempts = 4

// method is one method of the generated client.
type method[Req, Resp any] func(context.Context, *Req, ...grpc.CallOption) (*Resp, error)

// call makes one call, and makes it again while the registry cannot be reached.
func call[Req, Resp any](ctx context.Context, c *Client, m method[Req, Resp], req *Req) (*Resp, error) {
	return callUpTo(ctx, c, attempts, m, req)
}

// callUpTo is call with so many attempts at most.
func callUpTo[Req, Resp any](ctx context.Context, c *Client, most uint, m method[Req, Resp], req *Req) (*Resp, error) {
	ctx, cancel := c.bounded(ctx, 0)
	defer cancel()
	resp, err := m(ctx, req, retry.WithMax(most))
	if err != nil {
		return nil, c.fault(ctx, err)
	}
	return resp, nil
}

// bounded returns a context with the client's timeout, and so much more, unless ctx has a deadline.
func (c *Client) bounded(ctx context.Context, more time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); !ok && c.timeout > 0 {
		return context.WithTimeoutCause(ctx, c.timeout+more, errNoAnswer)
	}
	return context.WithCancel(ctx)
}

// errNoAnswer is why a context ended that had no deadline of its caller's.
var errNoAnswer = errors.New("no answer")

// fault returns the *script.Error for what a call ended with.
func (c *Client) fault(ctx context.Context, err error) error {
	st := status.Convert(err)
	e := script.AsError(wire.FromStatus(err))
	if len(st.Details()) > 0 {
		return e
	}
	awaitDeadline(ctx, st.Code())
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errNoAnswer):
		return script.Errorf(script.Unavailable, "", "the registry at %s did not answer within %v: %w", c.target, c.timeout, err)
	case cause != nil:
		return &script.Error{Kind: script.Timeout, Message: fmt.Sprintf("the registry at %s had not answered: %v", c.target, cause), Err: cause}
	}
	switch st.Code() {
	case codes.Unavailable:
		if strings.Contains(st.Message(), plannedEnd) {
			return script.Errorf(script.Unavailable, "", "the registry at %s ended the connection, as it does with old ones and when it stops: connect again", c.target)
		}
		return &script.Error{
			Kind:    script.Unavailable,
			Message: fmt.Sprintf("cannot reach the registry at %s (%s): %s", c.target, dialError(st.Message()), c.adviceOn(st.Message())),
			Err:     err,
		}
	case codes.Unimplemented:
		return script.Errorf(script.Invalid, "", "what answers at %s is not a registry that knows this request (%s): if it is a registry, upgrade it, or this client, whichever is older: %w", c.target, st.Message(), err)
	}
	return e
}

// plannedEnd is what gRPC says of a stream that ran until the registry ended its connection in order.
const plannedEnd = "received prior goaway: code: NO_ERROR"

// awaitDeadline waits for the end of ctx when the registry noticed first that its
// time was up, so that the error names that reason.
func awaitDeadline(ctx context.Context, code codes.Code) {
	const ahead = 500 * time.Millisecond // by which the registry's clock may be first
	deadline, ok := ctx.Deadline()
	if !ok || code != codes.DeadlineExceeded && code != codes.Canceled || time.Until(deadline) > ahead {
		return
	}
	<-ctx.Done()
}

// adviceOn says what to do about a connection that cannot be made.
func (c *Client) adviceOn(message string) string {
	switch {
	case strings.Contains(message, "first record does not look like a TLS handshake"):
		return "it does not speak TLS: the port is another's, or registryd was started without --tls-cert"
	case strings.Contains(message, "certificate signed by unknown authority"):
		return "its certificate is by a CA that is not known here: name that CA's file (scriptctl: --ca)"
	case strings.Contains(message, "x509: "):
		return "its certificate does not fit: is this the address that it was made for?"
	case strings.Contains(message, "remote error: tls: "):
		return "it refuses the client certificate: is it by the CA of registryd's --tls-client-ca, and still valid?"
	case strings.Contains(message, "error reading server preface"):
		return "it may want TLS"
	}
	if c.advice != "" {
		return "check that registryd runs there; " + c.advice
	}
	return "check that registryd runs there and that the address is right"
}

// dialError shortens what gRPC says of a connection that cannot be made.
func dialError(message string) string {
	_, reason, ok := strings.Cut(message, "Error while dialing: ")
	if !ok {
		_, reason, ok = strings.Cut(message, "transport: authentication handshake failed: ")
	}
	if !ok {
		return message
	}
	return strings.TrimSuffix(reason, `"`)
}
