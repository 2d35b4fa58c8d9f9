package rpc

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"github.com/scriptorium-dev/scriptorium/proto/bearer"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/proto/unixpeer"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Authentication says how callers are known. The zero value knows callers over Unix
// sockets alone.
type Authentication struct {
	// TLS of connections over TCP; nil for plain text.
	TLS credentials.TransportCredentials
	// Policy returns the access policy as it is now. If it is nil there is none:
	// then whoever could open a Unix socket may do everything, for the socket's mode
	// is the rule.
	Policy func() *access.Policy
	// InsecureAnonymous lets everybody do everything over TCP too. It is for a
	// registry without a Policy.
	InsecureAnonymous bool
	// InsecureTokens takes tokens over TCP in plain text, where others may read them.
	InsecureTokens bool
	// Refused, if not nil, is called for each caller that the server refuses because it does
	// not know the caller. It is called from any goroutine.
	Refused func(access.Reason)
}

// authenticator finds out who asks, for every call.
type authenticator struct {
	Authentication
	log      *slog.Logger
	refusals seldom
}

func newAuthenticator(cfg Authentication, log *slog.Logger) *authenticator {
	if cfg.Refused == nil {
		cfg.Refused = func(access.Reason) {}
	}
	return &authenticator{Authentication: cfg, log: log}
}

// stream ends streams when the access policy changes, or the caller's identity expires.
func (a *authenticator) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx := ss.Context()
	policy, _ := ctx.Value(policyKey{}).(*access.Policy)
	expires := access.FromContext(ctx).Expires
	outdated := func() error {
		switch {
		case a.policy() != policy:
			return script.Errorf(script.Unavailable, "", "the access policy has changed meanwhile: ask again")
		case !expires.IsZero() && time.Now().After(expires):
			return script.Errorf(script.Unavailable, "", "the caller's token or certificate has expired meanwhile: ask again with a new one")
		}
		return nil
	}
	return handler(srv, watchedStream{ServerStream: ss, outdated: outdated})
}

// policyKey is the context key of the access policy that admitted a call.
type policyKey struct{}

// policy returns the access policy as it is now; nil if there is none.
func (a *authenticator) policy() *access.Policy {
	if a.Policy == nil {
		return nil
	}
	return a.Policy()
}

// watchedStream is a stream of a caller whose permissions can end.
type watchedStream struct {
	grpc.ServerStream
	outdated func() error // what has changed since the start, so that the caller must ask again
}

// SendMsg implements grpc.ServerStream.
func (s watchedStream) SendMsg(m any) error {
	if err := s.outdated(); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

// RecvMsg implements grpc.ServerStream.
func (s watchedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return cmp.Or(s.outdated(), err)
}

// admit returns a context with the caller's identity, and the name of that.
func (a *authenticator) admit(ctx context.Context, method string) (context.Context, string, error) {
	if method == healthv1.Health_Check_FullMethodName {
		return ctx, budget.Stranger, nil // probes have no credentials, and learn no more than that
	}
	policy := a.policy()
	who, err := a.identify(ctx, policy)
	if err != nil {
		a.refuse(err, peerOf(ctx))
		return ctx, budget.Stranger, err
	}
	return context.WithValue(access.NewContext(ctx, who), policyKey{}, policy), who.Name, nil
}

func (a *authenticator) identify(ctx context.Context, policy *access.Policy) (access.Identity, error) {
	shown := access.Credentials{Peer: peerOf(ctx)}
	user, unix := unixpeer.FromContext[socketUser](ctx)
	if a.Policy == nil {
		switch {
		case unix || a.InsecureAnonymous:
			return access.Everybody(shown.Peer), nil
		default:
			return access.Identity{}, access.NewUnknown(access.NothingShown, "the registry has no access policy, so nobody may ask over the network: start registryd with --access-policy")
		}
	}
	shown.Unix, shown.UID = unix && user.known, user.uid
	shown.Certificate = certificateOf(ctx)
	var err error
	if shown.Token, err = bearer.FromContext(ctx); err != nil {
		return access.Identity{}, access.NewUnknown(access.MalformedToken, "the request's metadata is no token: %v", err)
	}
	if shown.Token != "" && !unix && a.TLS == nil && !a.InsecureTokens {
		return access.Identity{}, access.NewUnknown(access.PlaintextToken, "a token came in plain text, where others may have read it: replace the token, and connect with TLS")
	}
	return policy.Identify(shown, time.Now())
}

// refuse counts and logs a caller that is not known.
func (a *authenticator) refuse(err error, from string) {
	if unknown, ok := errors.AsType[*access.Unknown](err); ok {
		a.Refused(unknown.Reason)
	}
	if others, due := a.refusals.due(); due {
		a.log.Warn("a caller was refused; others are logged once a minute", "peer", from, "error", err, "others", others)
	}
}

// socketUser is who is at the other end of a Unix socket.
type socketUser struct {
	uid   uint32
	known bool
}

// String returns "unix uid 1000".
func (u socketUser) String() string {
	if !u.known {
		return "unix"
	}
	return "unix uid " + strconv.FormatUint(uint64(u.uid), 10)
}

// credentials are those of the server: TLS, or what the configuration says, for TCP,
// and the kernel's word for Unix sockets.
func (a *authenticator) credentials() credentials.TransportCredentials {
	tcp := a.TLS
	if tcp == nil {
		tcp = insecure.NewCredentials()
	}
	return byNetwork{
		TransportCredentials: tcp,
		unix: unixpeer.Credentials(func(conn net.Conn) socketUser {
			p, err := unixpeer.Of(conn)
			return socketUser{uid: p.UID, known: err == nil}
		}),
		failed: func(conn net.Conn, err error) {
			a.refuse(access.NewUnknown(access.FailedHandshake, "the TLS handshake failed: %v", err), conn.RemoteAddr().String())
		},
	}
}

// byNetwork are the credentials of TCP, and others for Unix sockets.
type byNetwork struct {
	credentials.TransportCredentials
	unix   credentials.TransportCredentials
	failed func(net.Conn, error)
}

// ServerHandshake implements credentials.TransportCredentials.
func (c byNetwork) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if conn.LocalAddr().Network() == "unix" {
		return c.unix.ServerHandshake(conn)
	}
	secured, info, err := c.TransportCredentials.ServerHandshake(conn)
	if err != nil {
		c.failed(conn, err)
	}
	return secured, info, err
}

// Clone implements credentials.TransportCredentials.
func (c byNetwork) Clone() credentials.TransportCredentials {
	c.TransportCredentials, c.unix = c.TransportCredentials.Clone(), c.unix.Clone()
	return c
}

// peerOf names where a request comes from.
func peerOf(ctx context.Context) string {
	if user, ok := unixpeer.FromContext[socketUser](ctx); ok {
		return user.String()
	}
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return "unknown"
}

// certificateOf returns the caller's certificate if its chain was verified, else
// nil.
func certificateOf(ctx context.Context) *x509.Certificate {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return nil
	}
	return info.State.VerifiedChains[0][0]
}
