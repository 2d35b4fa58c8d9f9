package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	assets "github.com/scriptorium-dev/scriptorium/console"
	"github.com/scriptorium-dev/scriptorium/internal/flagenv"
	"github.com/scriptorium-dev/scriptorium/internal/obs"
	"github.com/scriptorium-dev/scriptorium/internal/security"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/script"
)

// options are the flags.
type options struct {
	registry  string
	caller    security.Caller
	plaintext bool
	listen    string
	tls       tlsfiles.Files
	logging   obs.LogOptions
}

// Command returns the console command.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Serve the console, a web application for the scripts of a registry",
		Long: `console serves a web application that shows and changes the scripts of a registry.

A person signs in with a token of the registry. The access policy of the registry says
what the person may see and do. With --cert and --key, or over a Unix socket, the
console has an identity of its own: it prints a code, and whoever signs in with the
code acts with that identity. The code works once.

Without --tls-cert and --tls-key the console is for this machine alone: --listen must
be a loopback address.`,
		Example: `  scriptorium console --registry unix:.scriptorium/registry.sock
  scriptorium console --registry registry.example:7070 --ca ca.crt --listen :7443 --tls-cert tls.crt --tls-key tls.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.registry, "registry", "127.0.0.1:7070", "the registry: host:port or unix:PATH")
	o.caller.AddFlags(flags, "")
	flags.BoolVar(&o.plaintext, security.PlaintextFlag, false, "connect to a registry at host:port without TLS")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:7080", "host:port of the console")
	flags.StringVar(&o.tls.Cert, "tls-cert", "", "file of the certificate, with its chain")
	flags.StringVar(&o.tls.Key, "tls-key", "", "file of that certificate's private key")
	o.logging.AddFlags(flags)
	flagenv.Bind(cmd)
	return cmd
}

func (o *options) run(cmd *cobra.Command) error {
	log, err := o.logging.NewLogger(os.Stderr)
	if err != nil {
		return err
	}
	connection, err := o.caller.Open(o.registry, "", o.plaintext, tlsfiles.WarnOfOpen, log)
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(o.registry, connection.DialOptions()...)
	if err != nil {
		return script.Errorf(script.Invalid, "--registry", "%w", err)
	}
	defer conn.Close()
	cfg := Config{Registry: conn, Plaintext: o.plaintext, Assets: assets.Assets(), Secure: o.tls.Cert != "", Clock: time.Now, Log: log}
	if o.caller.Cert != "" || connection.PerCall != nil || strings.HasPrefix(o.registry, "unix:") {
		cfg.Code = rand.Text()
	}
	listener, err := o.listener(cmd.Context(), log)
	if err != nil {
		return err
	}
	scheme := map[bool]string{true: "https", false: "http"}[cfg.Secure]
	fmt.Fprintf(cmd.OutOrStdout(), "console: %s://%s\n", scheme, listener.Addr())
	if cfg.Code != "" {
		fmt.Fprintf(cmd.OutOrStdout(), "console: the code to sign in with: %s\n", cfg.Code)
	}
	return serve(cmd.Context(), listener, New(cfg))
}

// listener returns where the console is served.
func (o *options) listener(ctx context.Context, log *slog.Logger) (net.Listener, error) {
	if (o.tls.Cert == "") != (o.tls.Key == "") {
		return nil, script.Errorf(script.Invalid, "--tls-cert", "and --tls-key go together")
	}
	if host, _, err := net.SplitHostPort(o.listen); o.tls.Cert == "" && (err != nil || !isLoopback(cmp.Or(host, "0.0.0.0"))) {
		return nil, script.Errorf(script.Invalid, "--listen", "%q is not a loopback address such as 127.0.0.1:7080: give --tls-cert and --tls-key to serve others", o.listen)
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", o.listen)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "--listen", "%w", err)
	}
	if o.tls.Cert == "" {
		return l, nil
	}
	return secured(l, o.tls, log)
}

// serve answers until ctx ends.
func serve(ctx context.Context, l net.Listener, handler http.Handler) error {
	const patience = 5 * time.Second
	server := &http.Server{Handler: handler, ReadHeaderTimeout: patience, BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		_ = server.Shutdown(closing) //nolint:contextcheck // ctx has ended
	})
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// secured returns the listener with TLS. Each connection has the certificate that the files hold then.
func secured(l net.Listener, files tlsfiles.Files, log *slog.Logger) (net.Listener, error) {
	files.Connection = "console"
	m, err := tlsfiles.Load(files, log)
	if err != nil {
		return nil, errors.Join(script.Errorf(script.Invalid, "--tls-cert, --tls-key", "%w", err), l.Close())
	}
	return tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c, err := m.Server()
		if err == nil {
			c.NextProtos = []string{"http/1.1"}
		}
		return c, err
	}}), nil
}
