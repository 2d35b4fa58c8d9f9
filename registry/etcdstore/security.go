package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Security of connections to etcd. The zero value has none.
type Security struct {
	// Credentials of https:// endpoints; nil believes the system's certificates.
	Credentials credentials.TransportCredentials
	// User of etcd, and its password, which is asked for at each login. A client
	// certificate needs neither: its common name is the user.
	User     string
	Password func() (string, error)
}

// configure adds what it takes to the configuration of a client. Call the returned function
// once the client is made. trouble notes failed handshakes, for etcd's client does not report
// them.
func (s Security) configure(cfg *clientv3.Config, trouble *trouble) (made func(), err error) {
	if s.Credentials != nil {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithTransportCredentials(telling{s.Credentials, trouble}))
	}
	if s.User == "" {
		return func() {}, nil
	}
	if s.Password == nil {
		return nil, script.Errorf(script.Invalid, "etcd user", "%s has no password", s.User)
	}
	l := &login{password: s.Password}
	// The client logs in with a user that has some password; login has the one of the
	// moment.
	cfg.Username, cfg.Password = s.User, "-"
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(l.intercept))
	return func() { l.ready.Store(true) }, nil
}

// login puts the password of the moment into each login of the client. The one that
// the client makes while it is made it answers itself: making a client is not to wait
// for etcd. etcd then refuses the token of the first request, and the client logs in.
type login struct {
	password func() (string, error)
	ready    atomic.Bool
}

func (l *login) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	authenticate, ok := req.(*etcdserverpb.AuthenticateRequest)
	if !ok {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	if !l.ready.Load() {
		reply.(*etcdserverpb.AuthenticateResponse).Token = "none yet"
		return nil
	}
	password, err := l.password()
	if err != nil {
		return err
	}
	return invoke(ctx, method, &etcdserverpb.AuthenticateRequest{Name: authenticate.GetName(), Password: password}, reply, cc, opts...)
}

// trouble is why the last connection to etcd did not come about; nil if it did.
type trouble struct{ last atomic.Pointer[error] }

func (t *trouble) tell(err error) { t.last.Store(&err) }

// of returns err with the trouble that it may come of.
func (t *trouble) of(err error) error {
	if last := t.last.Load(); last != nil && *last != nil {
		return fmt.Errorf("%w: %w", *last, err)
	}
	return err
}

// telling are credentials that tell of handshakes that fail.
type telling struct {
	credentials.TransportCredentials
	trouble *trouble
}

// ClientHandshake implements credentials.TransportCredentials.
func (c telling) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		c.trouble.tell(err)
		return conn, info, err
	}
	return &tellingConn{Conn: conn, trouble: c.trouble}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (c telling) Clone() credentials.TransportCredentials {
	return telling{c.TransportCredentials.Clone(), c.trouble}
}

// tellingConn tells what etcd thinks of our certificate: in TLS 1.3 that comes after
// the handshake.
type tellingConn struct {
	net.Conn
	trouble *trouble
	heard   bool
}

// Read implements net.Conn.
func (c *tellingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.heard {
		c.heard = true
		c.trouble.tell(nil)
	}
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
		c.trouble.tell(err)
	}
	return n, err
}
