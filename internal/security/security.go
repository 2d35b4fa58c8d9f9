// Package security makes of flags how a process knows others and shows itself to
// them: certificates, users, passwords and tokens. What is not secure has to be asked
// for, and is said in the log.
package security

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/credentials/local"

	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/proto/bearer"
	"github.com/scriptorium-dev/scriptorium/proto/natsconn"
	"github.com/scriptorium-dev/scriptorium/script"
)

// PlaintextFlag allows connections that are not encrypted.
const PlaintextFlag = "insecure-plaintext"

// Plaintext notes in the log that the connection with what is not encrypted, or
// returns the error that says what to do about it.
func Plaintext(allowed bool, flag, what, instead, address string, log *slog.Logger) error {
	if !allowed {
		return script.Errorf(script.Invalid, flag, "%s is not encrypted: %s, or accept it with --%s", address, instead, PlaintextFlag)
	}
	if loopback(address) {
		log.Info(what+" is not encrypted; it stays on this machine", "address", address)
		return nil
	}
	log.Warn(what+" is not encrypted: whoever is on the way can read it and change it", "address", address)
	return nil
}

// loopback reports whether the address, a URL or host:port, is of this machine.
func loopback(address string) bool {
	host := address
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		host = u.Host
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// AddFileModes defines the flag that accepts secrets in files that other users can read
// or change.
func AddFileModes(flags *pflag.FlagSet, insecure *bool) {
	flags.BoolVar(insecure, tlsfiles.ModesFlag, false, "accept signing keys, private TLS keys, tokens, passwords and NATS credentials in files that other users can read or change")
}

// NATS are the flags about connections to NATS.
type NATS struct {
	CA, Cert, Key      string
	Creds              string
	User, PasswordFile string

	Expiries *tlsfiles.Expiries // collects when the certificates expire; may be nil
}

// AddFlags defines them.
func (n *NATS) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&n.CA, "nats-ca", "", "file of the CA certificates that vouch for NATS; with tls:// and without it, the system's")
	flags.StringVar(&n.Cert, "nats-cert", "", "file of the client certificate for NATS, if it asks for one")
	flags.StringVar(&n.Key, "nats-key", "", "file of that certificate's private key")
	flags.StringVar(&n.Creds, "nats-creds", "", "file of NATS credentials (.creds): a JWT and its seed")
	flags.StringVar(&n.User, "nats-user", "", "user of NATS")
	flags.StringVar(&n.PasswordFile, "nats-password-file", "", "file of that user's password")
}

// Open reads the files and returns how to connect to the servers at urls.
func (n NATS) Open(urls []string, plaintext bool, modes tlsfiles.Modes, log *slog.Logger) (natsconn.Security, error) {
	sec := natsconn.Security{CredentialsFile: n.Creds, User: n.User}
	if n.Creds != "" && n.User != "" {
		return sec, script.Errorf(script.Invalid, "--nats-creds", "and --nats-user are two ways to say the same: take one")
	}
	if (n.User == "") != (n.PasswordFile == "") {
		return sec, script.Errorf(script.Invalid, "--nats-user", "and --nats-password-file go together")
	}
	if err := modes.Check(n.Creds, log); err != nil {
		return sec, about("--nats-creds", err)
	}
	var err error
	if n.User != "" {
		if sec.Password, err = tlsfiles.Secret(n.PasswordFile, modes, log); err != nil {
			return sec, about("--nats-password-file", err)
		}
	}
	secure := n.CA != "" || n.Cert != "" || n.Key != ""
	for _, u := range urls {
		secure = secure || strings.HasPrefix(u, "tls://")
	}
	if !secure {
		return sec, Plaintext(plaintext, "--nats-url", "NATS", "write tls:// or give --nats-ca", strings.Join(urls, ","), log)
	}
	m, err := tlsfiles.Load(tlsfiles.Files{CA: n.CA, Cert: n.Cert, Key: n.Key, Modes: modes, Expiries: n.Expiries, Connection: "nats"}, log)
	if err != nil {
		return sec, about("--nats-ca, --nats-cert, --nats-key", err)
	}
	sec.TLS = func() (*tls.Config, error) { return m.Client() }
	return sec, nil
}

// Caller are the flags about connections to a registry, of those who ask it.
type Caller struct {
	CA, Cert, Key string
	TokenFile     string
	Token         string // in place of a file; from the environment

	Expiries *tlsfiles.Expiries // collects when the certificates expire; may be nil
}

// AddFlags defines them, with the prefix before each name: "registry-" makes
// --registry-ca.
func (c *Caller) AddFlags(flags *pflag.FlagSet, prefix string) {
	flags.StringVar(&c.CA, prefix+"ca", "", "file of the CA certificates that vouch for the registry; the system's when empty")
	flags.StringVar(&c.Cert, prefix+"cert", "", "file of the client certificate for the registry")
	flags.StringVar(&c.Key, prefix+"key", "", "file of that certificate's private key")
	flags.StringVar(&c.TokenFile, prefix+"token-file", "", "file of a bearer token for the registry")
}

// Connection is how a registry is connected to.
type Connection struct {
	// Transport secures it.
	Transport credentials.TransportCredentials
	// PerCall are shown with each call; nil for none.
	PerCall credentials.PerRPCCredentials
}

// DialOptions returns the connection as options of gRPC.
func (c Connection) DialOptions() []grpc.DialOption {
	options := []grpc.DialOption{grpc.WithTransportCredentials(c.Transport)}
	if c.PerCall != nil {
		options = append(options, grpc.WithPerRPCCredentials(c.PerCall))
	}
	return options
}

// Open reads the files and returns how to connect to the registry at the address.
// Over a Unix socket there is nothing to encrypt; over TCP there is TLS, unless
// plaintext is allowed and no certificates are given.
func (c Caller) Open(address, prefix string, plaintext bool, modes tlsfiles.Modes, log *slog.Logger) (Connection, error) {
	conn := Connection{Transport: local.NewCredentials()} // of Unix sockets
	unencrypted := false
	if !strings.HasPrefix(address, "unix:") {
		unencrypted = plaintext && c.CA == "" && c.Cert == "" && c.Key == ""
		var err error
		if conn.Transport, err = c.transport(unencrypted, address, prefix, modes, log); err != nil {
			return conn, err
		}
	}
	switch {
	case c.TokenFile != "":
		token, err := tlsfiles.Secret(c.TokenFile, modes, log)
		if err != nil {
			return conn, about("--"+prefix+"token-file", err)
		}
		conn.PerCall = bearer.Credentials(token, unencrypted)
	case c.Token != "":
		conn.PerCall = bearer.Credentials(func() (string, error) { return c.Token, nil }, unencrypted)
	}
	return conn, nil
}

func (c Caller) transport(unencrypted bool, address, prefix string, modes tlsfiles.Modes, log *slog.Logger) (credentials.TransportCredentials, error) {
	if unencrypted {
		return insecure.NewCredentials(), Plaintext(true, "", "the connection to the registry", "", address, log)
	}
	m, err := tlsfiles.Load(tlsfiles.Files{CA: c.CA, Cert: c.Cert, Key: c.Key, Modes: modes, Expiries: c.Expiries, Connection: "registry"}, log)
	if err != nil {
		return nil, about("--"+prefix+"ca, --"+prefix+"cert, --"+prefix+"key", err)
	}
	return m.Credentials(), nil
}

// about names the flags that an error is about.
func about(flags string, err error) error { return script.Errorf(script.Invalid, flags, "%w", err) }
