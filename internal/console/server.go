package console

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/scriptorium-dev/scriptorium/internal/obs"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/target"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Site is where a console is served.
type Site struct {
	Listen string // host:port
	URL    string
	TLS    tlsfiles.Files
	// Provider is where people sign in, besides.
	Provider Provider
	// Flag names the flag that sets Listen, for error messages. The default is --listen.
	Flag string
	// prefix of the flags, for errors.
	prefix string
}

// AddFlags defines the flags of a site, except the flag for Listen. The prefix comes before each name: "console-"
// makes --console-tls-cert.
func (s *Site) AddFlags(flags *pflag.FlagSet, prefix string) {
	s.prefix = prefix
	flags.StringVar(&s.TLS.Cert, prefix+"tls-cert", "", "file of the certificate of the console, with its chain")
	flags.StringVar(&s.TLS.Key, prefix+"tls-key", "", "file of that certificate's private key")
	flags.StringVar(&s.URL, prefix+"url", "", "where browsers find the console, such as https://console.example; requests for other hosts are refused")
	s.Provider.AddFlags(flags, prefix)
}

// Bounds of connections.
const (
	headerTimeout    = 10 * time.Second
	idleConnection   = 2 * time.Minute
	maxHeaderBytes   = 16 << 10
	streamsPerClient = 100 // of HTTP/2, on one connection
	drainTimeout     = 5 * time.Second
	readyTimeout     = 2 * time.Second
)

// Dialer returns Config.Dial for the registry at unix:PATH or host:port. A connection that is gone without a word must not hang
// a stream for ever, and a registry that starts again is soon found. The registry allows a ping every 5 s.
func Dialer(registry string, transport credentials.TransportCredentials) (func() (*grpc.ClientConn, error), error) {
	endpoint, options, err := target.Parse(registry)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "--registry", "%w", err)
	}
	options = append(options,
		grpc.WithTransportCredentials(transport),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
	)
	return func() (*grpc.ClientConn, error) { return grpc.NewClient(endpoint, options...) }, nil
}

// Server is a console that is served.
type Server struct {
	console *Console
	http    *http.Server
	url     string
	addr    net.Addr
	running sync.WaitGroup
	end     context.CancelFunc
	once    sync.Once
	failed  chan error
}

// Start serves a console at the site. It sets what of the configuration the site says.
func Start(ctx context.Context, at Site, cfg Config) (*Server, error) {
	l, secure, err := at.listen(ctx, cfg.Log)
	if err != nil {
		return nil, err
	}
	cfg.Secure, cfg.Address, cfg.URL, cfg.Provider = secure, l.Addr().String(), at.URL, at.Provider
	cfg.Modes = at.TLS.Modes
	c, err := New(cfg)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	scheme := map[bool]string{true: "https", false: "http"}[secure]
	s := &Server{console: c, url: cmp.Or(at.URL, scheme+"://"+l.Addr().String()), addr: l.Addr(), failed: make(chan error, 1)}
	s.http = &http.Server{
		Handler: c, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleConnection, MaxHeaderBytes: maxHeaderBytes,
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: streamsPerClient, SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		Protocols: new(http.Protocols),
		ErrorLog:  slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	s.http.Protocols.SetHTTP1(true)
	s.http.Protocols.SetHTTP2(true)
	s.http.Protocols.SetUnencryptedHTTP2(!secure)
	var life context.Context
	life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	s.running.Go(func() { c.Run(life) })
	s.running.Go(func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
	})
	return s, nil
}

// Addr is the address that the console listens on.
func (s *Server) Addr() net.Addr { return s.addr }

// URL is where browsers find the console.
func (s *Server) URL() string { return s.url }

// Ready says whether the registry answers: without it, nobody can sign in or do anything.
func (s *Server) Ready(ctx context.Context) obs.Readiness {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	request := &healthv1.HealthCheckRequest{Service: registryv1.Registry_ServiceDesc.ServiceName}
	answer, err := healthv1.NewHealthClient(s.console.registry.calls).Check(ctx, request)
	switch {
	case err != nil:
		return obs.Readiness{Reason: fromRegistry(err).Error()}
	case answer.GetStatus() != healthv1.HealthCheckResponse_SERVING:
		return obs.Readiness{Reason: "the registry refuses calls: its own /readyz says why"}
	}
	return obs.Readiness{Ready: true}
}

// Wait serves until ctx is done.
func (s *Server) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return s.Stop(context.WithoutCancel(ctx))
	case err := <-s.failed:
		return errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
}

// Stop ends streams, finishes the calls in flight within a few seconds, or until ctx is done, and closes everything. A
// second call does nothing.
func (s *Server) Stop(ctx context.Context) (err error) {
	s.once.Do(func() { err = s.stop(ctx) })
	return err
}

func (s *Server) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	s.console.Drain()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	s.end()
	s.running.Wait()
	return errors.Join(err, s.console.Close())
}

// Loopback reports whether Listen is of this machine alone.
func (s Site) Loopback() bool {
	host, _, err := net.SplitHostPort(s.Listen)
	return err == nil && isLoopback(host)
}

// listen returns where the console is served, and whether that is encrypted.
func (s Site) listen(ctx context.Context, log *slog.Logger) (l net.Listener, secure bool, err error) {
	secure = s.TLS.Cert != ""
	if secure != (s.TLS.Key != "") {
		return nil, secure, script.Errorf(script.Invalid, "--"+s.prefix+"tls-cert", "and --%stls-key go together", s.prefix)
	}
	listenFlag := cmp.Or(s.Flag, "--listen")
	if !secure && !s.Loopback() {
		return nil, secure, script.Errorf(script.Invalid, listenFlag, "%q is not a loopback address such as 127.0.0.1:7080: give --%stls-cert and --%stls-key to serve others", s.Listen, s.prefix, s.prefix)
	}
	var config *tls.Config
	if secure {
		if config, err = s.tls(log); err != nil {
			return nil, secure, err
		}
	}
	var lc net.ListenConfig
	if l, err = lc.Listen(ctx, "tcp", s.Listen); err != nil {
		return nil, secure, script.Errorf(script.Invalid, listenFlag, "%w", err)
	}
	if secure {
		l = tls.NewListener(l, config)
	}
	return l, secure, nil
}

// tls returns the configuration of connections. Each has the certificate that the files hold when it is made.
func (s Site) tls(log *slog.Logger) (*tls.Config, error) {
	files := s.TLS
	files.Connection = "console"
	m, err := tlsfiles.Load(files, log)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "--"+s.prefix+"tls-cert, --"+s.prefix+"tls-key", "%w", err)
	}
	protocols := []string{"h2", "http/1.1"}
	return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: protocols, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c, err := m.Server()
		if err == nil {
			c.NextProtos = protocols
		}
		return c, err
	}}, nil
}
