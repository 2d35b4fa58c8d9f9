package agentd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/callers"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Port is the TCP port for gateways that cannot connect to a Unix socket. It speaks what http.sock does.
type Port struct {
	Listen  string // host:port; "": there is none
	Callers string // the file of callers
	// Cert and Key are what the agent shows; without them, the port is not encrypted, and the address has
	// to be of this machine.
	Cert, Key string
	// ClientCA vouches for the certificates of callers; without it, callers show tokens.
	ClientCA string
}

func (p *Port) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&p.Listen, "http-listen", "", "host:port of an HTTP port for gateways that cannot connect to http.sock, such as 127.0.0.1:7071; none when empty. Other addresses than those of this machine need --http-cert")
	flags.StringVar(&p.Callers, "http-callers", "", "file of the callers of --http-listen: their tokens or certificates, and the tenants that they may use")
	flags.StringVar(&p.Cert, "http-cert", "", "file of the certificate of --http-listen")
	flags.StringVar(&p.Key, "http-key", "", "file of that certificate's private key")
	flags.StringVar(&p.ClientCA, "http-client-ca", "", "file of the CA certificates that vouch for callers of --http-listen")
}

// port is a Port whose files were read.
type port struct {
	address string
	tls     *tls.Config // nil: it is not encrypted
	callers atomic.Pointer[callers.Callers]

	file  string
	ca    bool // certificates of callers are verified
	watch *tlsfiles.Watch
	log   *slog.Logger
}

// open reads the files. It returns nil if there is to be no port.
func (p Port) open(modes tlsfiles.Modes, expiries *tlsfiles.Expiries, log *slog.Logger) (*port, error) {
	if p.Listen == "" {
		for flag, value := range map[string]string{"--http-callers": p.Callers, "--http-cert": p.Cert, "--http-key": p.Key, "--http-client-ca": p.ClientCA} {
			if value != "" {
				return nil, script.Errorf(script.Invalid, flag, "is for the port of --http-listen: set that too, such as --http-listen 127.0.0.1:7071")
			}
		}
		return nil, nil
	}
	opened := &port{file: p.Callers, ca: p.ClientCA != "", log: log}
	if err := p.openTLS(opened, modes, expiries, log); err != nil {
		return nil, err
	}
	if err := p.openCallers(opened); err != nil {
		return nil, err
	}
	address, err := net.ResolveTCPAddr("tcp", p.Listen)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "--http-listen", "%w", err)
	}
	if opened.tls == nil && !address.IP.IsLoopback() {
		return nil, script.Errorf(script.Invalid, "--http-listen", "%s is not an address of this machine alone, and the port is not encrypted: listen on 127.0.0.1 or [::1], or set --http-cert and --http-key", p.Listen)
	}
	opened.address = address.String() // that was looked at: a name may stand for another one later
	return opened, nil
}

// listen opens the port.
func (p *port) listen() (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", p.address)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "--http-listen", "%w", err)
	}
	return l, nil
}

func (p Port) openTLS(opened *port, modes tlsfiles.Modes, expiries *tlsfiles.Expiries, log *slog.Logger) error {
	if p.Cert == "" && p.Key == "" {
		if p.ClientCA != "" {
			return script.Errorf(script.Invalid, "--http-client-ca", "needs TLS: set --http-cert and --http-key")
		}
		return nil
	}
	material, err := tlsfiles.Load(tlsfiles.Files{CA: p.ClientCA, Cert: p.Cert, Key: p.Key, Modes: modes, Expiries: expiries, Connection: "http"}, log)
	if err != nil {
		return script.Errorf(script.Invalid, "--http-cert, --http-key, --http-client-ca", "%w", err)
	}
	opened.tls = &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return material.Server() },
	}
	return nil
}

func (p Port) openCallers(opened *port) error {
	if p.Callers == "" {
		return script.Errorf(script.Invalid, "--http-callers", "is required with --http-listen: name the file of the callers, their tokens or certificates, and the tenants that they may use")
	}
	opened.watch = tlsfiles.NewWatch(p.Callers)
	known, err := opened.load()
	if err != nil {
		return script.Errorf(script.Invalid, "--http-callers", "%w", err)
	}
	opened.callers.Store(known)
	return nil
}

// load reads the callers. It refuses a file that others can change: they could name themselves. Reading it
// gives nothing away, because it holds digests of tokens.
func (p *port) load() (*callers.Callers, error) {
	if err := tlsfiles.Unchangeable(p.file); err != nil {
		return nil, err
	}
	known, err := callers.Load(p.file)
	if err == nil && known.HasCertificates() && !p.ca {
		err = script.Errorf(script.Invalid, p.file, "names certificates, and nothing vouches for them: set --http-client-ca")
	}
	return known, err
}

// identify returns what the caller of a request may use.
func (p *port) identify(tokens []string, cert *x509.Certificate, now time.Time) (gateway.Grant, error) {
	return p.callers.Load().Identify(tokens, cert, now)
}

// callersInterval is how often the file of callers is looked at.
const callersInterval = 2 * time.Second

// run keeps the callers as their file says, until ctx is done.
func (p *port) run(ctx context.Context) {
	p.watch.Run(ctx, callersInterval, func() {
		known, err := p.load()
		if err != nil {
			p.log.Error("the callers of --http-listen were replaced by what cannot be used; the old ones stay", "error", err)
			return
		}
		p.callers.Store(known)
		p.log.Info("the callers of --http-listen were read again", "file", p.file)
	})
}
