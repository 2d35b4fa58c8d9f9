package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

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
	openFiles bool
	admin     string
	site      Site
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
what the person may see and do. With --cert, with --token-file, or over a Unix
socket, the console has an identity of its own. Then it prints a code. Whoever signs in
with the code acts with that identity. The code works once, then the console prints another.

Without --tls-cert and --tls-key the console is for this machine alone: --listen must
be a loopback address. Behind a proxy that ends TLS, give --url.`,
		Example: `  scriptorium console --registry unix:.scriptorium/registry.sock
  scriptorium console --registry registry.example:7070 --ca ca.crt --listen :7443 --tls-cert tls.crt --tls-key tls.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.registry, "registry", "127.0.0.1:7070", "the registry: host:port or unix:PATH")
	o.caller.AddFlags(flags, "")
	flags.BoolVar(&o.plaintext, security.PlaintextFlag, false, "connect to a registry at host:port without TLS")
	security.AddFileModes(flags, &o.openFiles)
	flags.StringVar(&o.site.Listen, "listen", "127.0.0.1:7080", "host:port of the console")
	o.site.AddFlags(flags, "")
	flags.StringVar(&o.admin, "admin-address", "", "host:port for /healthz, /readyz and /metrics; none when empty")
	o.logging.AddFlags(flags)
	flagenv.Bind(cmd)
	return cmd
}

func (o *options) run(cmd *cobra.Command) error {
	log, err := o.logging.NewLogger(os.Stderr)
	if err != nil {
		return err
	}
	cfg, err := o.config(log)
	if err != nil {
		return err
	}
	out, metrics := cmd.OutOrStdout(), obs.NewMetrics()
	cfg.Metrics = metrics
	if cfg.Announce != nil {
		cfg.Announce = func(code string) { fmt.Fprintf(out, "console: sign in with the code %s\n", code) }
	}
	server, err := Start(cmd.Context(), o.site, cfg)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "console: %s\n", server.URL())
	admin, err := o.serveAdmin(cmd.Context(), metrics, server, log)
	if err != nil {
		return errors.Join(err, server.Stop(context.WithoutCancel(cmd.Context())))
	}
	return errors.Join(server.Wait(cmd.Context()), admin())
}

// serveAdmin serves what operators look at, until the function is called.
func (o *options) serveAdmin(ctx context.Context, metrics prometheus.Gatherer, server *Server, log *slog.Logger) (end func() error, err error) {
	if o.admin == "" {
		return func() error { return nil }, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.admin)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "--admin-address", "%w", err)
	}
	return obs.ServeAdmin(l, obs.Handler(metrics, server.Ready), log).Close, nil
}

// config returns what New needs. Its Announce says by not being nil that there are codes.
func (o *options) config(log *slog.Logger) (Config, error) {
	modes := tlsfiles.RefuseOpen
	if o.openFiles {
		modes = tlsfiles.WarnOfOpen
	}
	o.site.TLS.Modes = modes
	connection, err := o.caller.Open(o.registry, "", o.plaintext, modes, log)
	if err != nil {
		return Config{}, err
	}
	dial, err := Dialer(o.registry, connection.Transport)
	if err != nil {
		return Config{}, err
	}
	cfg := Config{Dial: dial, Own: connection.PerCall, Plaintext: o.plaintext, Assets: assets.Assets(), Clock: time.Now, Log: log}
	if o.caller.Cert != "" || connection.PerCall != nil || strings.HasPrefix(o.registry, "unix:") {
		cfg.Announce = func(string) {}
	}
	return cfg, nil
}
