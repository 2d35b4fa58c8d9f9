package registryd

import (
	"context"
	"net"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/local"
	"google.golang.org/grpc/test/bufconn"

	assets "github.com/scriptorium-dev/scriptorium/console"
	"github.com/scriptorium-dev/scriptorium/internal/console"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Console says where the console is served; nowhere if Listen is empty.
type Console struct{ console.Site }

// addFlags defines the flags.
func (c *Console) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.Listen, "console", "", "host:port of the console, the web application; none when empty. It needs --access-policy")
	c.AddFlags(flags, "console-")
	flags.Lookup("console-tls-cert").Usage += "; by default the certificate of --tls-cert, unless --console is a loopback address"
	c.Flag = "--console"
}

// site returns the site with the registry's own certificate, if the console has none and needs one.
func (c Console) site(s Security) (console.Site, error) {
	at := c.Site
	at.Flag = "--console"
	if s.AccessPolicy == "" {
		return at, script.Errorf(script.Invalid, "--console", "needs --access-policy: people sign in with tokens of the policy, or at a provider that it names. Without a policy, run `scriptorium console`, which has a code to sign in with")
	}
	if at.TLS.Cert == "" && at.TLS.Key == "" && !at.Loopback() {
		at.TLS.Cert, at.TLS.Key = s.TLSCert, s.TLSKey
	}
	at.TLS.Modes = s.modes()
	return at, nil
}

// startConsole serves the console. It reaches the registry in memory, as a caller that is nobody without a token.
func (d *Daemon) startConsole(ctx context.Context, cfg Config) error {
	if cfg.Console.Listen == "" {
		return nil
	}
	at, err := cfg.Console.site(cfg.Security)
	if err != nil {
		return err
	}
	at.TLS.Expiries = d.secure.expiries
	within := newWithin()
	d.running.Go(func() { _ = d.server.Serve(within) })
	d.console, err = console.Start(ctx, at, console.Config{
		Dial: within.dial, Assets: assets.Assets(), Clock: cfg.Clock, Log: cfg.Log.With("part", "console"), Metrics: cfg.Metrics,
	})
	if err != nil {
		return err
	}
	cfg.Log.Info("serving the console", "url", d.console.URL())
	return nil
}

// within is a listener for callers in this process. It counts as a Unix socket, since nobody can listen in; but nobody is known
// by it.
type within struct{ *bufconn.Listener }

// pipeBytes may be under way in one direction of a connection.
const pipeBytes = 256 << 10

func newWithin() within { return within{bufconn.Listen(pipeBytes)} }

// Accept implements net.Listener.
func (w within) Accept() (net.Conn, error) {
	conn, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return pipe{conn}, nil
}

// dial returns a client of the listener.
func (w within) dial() (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///registry", grpc.WithTransportCredentials(local.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := w.DialContext(ctx)
			if err != nil {
				return nil, err
			}
			return pipe{conn}, nil
		}))
}

// pipe is a connection in memory.
type pipe struct{ net.Conn }

// LocalAddr implements net.Conn.
func (pipe) LocalAddr() net.Addr { return pipeAddr() }

// RemoteAddr implements net.Conn.
func (pipe) RemoteAddr() net.Addr { return pipeAddr() }

func pipeAddr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "console"} }
