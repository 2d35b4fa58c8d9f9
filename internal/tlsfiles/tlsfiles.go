// Package tlsfiles reads certificates, keys and secrets from files, and reads them
// again when they change: others renew them while the process runs.
package tlsfiles

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Files name what one end of a connection has, all in PEM.
type Files struct {
	// CA has the certificates of those who vouch for the other end. If it is empty, a
	// client believes the system's, and a server asks for no certificate.
	CA string
	// Cert and Key are what this end shows: a chain, its own certificate first, and the
	// private key. A client may have none.
	Cert, Key string
	// Modes selects what Load does if other users can read or change Key.
	Modes Modes
	// Expiries collects when these certificates expire, by the name of the connection that they are for.
	Expiries   *Expiries
	Connection string
}

// Material is what is in the files. It is safe for concurrent use.
type Material struct {
	files Files
	log   *slog.Logger

	mu      sync.Mutex
	checked time.Time
	content [3][]byte // of the files when they were good last
	told    string    // the error that was logged last
	pool    *x509.CertPool
	pair    *tls.Certificate
}

// Load reads the files. Errors are Invalid and name the file. Files that change for
// the worse later are said in the log, and what was there before stays in use.
func Load(files Files, log *slog.Logger) (*Material, error) {
	if (files.Cert == "") != (files.Key == "") {
		return nil, script.Errorf(script.Invalid, "certificate", "a certificate and its key go together: name the file of each (there is %q)", files.Cert+files.Key)
	}
	m := &Material{files: files, log: log, checked: time.Now()}
	content, err := m.read()
	if err != nil {
		return nil, err
	}
	m.content = content
	if m.pool, m.pair, err = m.parse(content); err != nil {
		return nil, err
	}
	if err := files.Modes.Check(files.Key, log); err != nil {
		return nil, err
	}
	m.warnOfExpiry()
	files.Expiries.add(files.Connection, m)
	return m, nil
}

// Client returns a configuration for the next connection that is made. Each has to
// ask for its own.
func (m *Material) Client() (*tls.Config, error) {
	pool, pair := m.current()
	c := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool}
	if pair != nil {
		c.Certificates = []tls.Certificate{*pair}
	}
	return c, nil
}

// Server returns a configuration for the next connection that is accepted. If there
// is a CA, clients may show a certificate, and one that they show has to be good.
func (m *Material) Server() (*tls.Config, error) {
	pool, pair := m.current()
	if pair == nil {
		return nil, script.Errorf(script.Invalid, "certificate", "a server needs a certificate and its key")
	}
	c := &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{*pair},
		// A session that goes on would outlive a CA that is not believed any more.
		SessionTicketsDisabled: true,
	}
	if pool != nil {
		c.ClientAuth, c.ClientCAs = tls.VerifyClientCertIfGiven, pool
	}
	return c, nil
}

// Credentials are those of a gRPC client or server. Each connection has what the
// files hold when it is made.
func (m *Material) Credentials() credentials.TransportCredentials {
	return &handshaker{material: m}
}

// recheck is how often the files are looked at, at most.
const recheck = time.Second

// current returns what the files hold, or held last when it was good.
func (m *Material) current() (*x509.CertPool, *tls.Certificate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if now.Sub(m.checked) < recheck {
		return m.pool, m.pair
	}
	m.checked = now
	content, err := m.read()
	if err == nil && equal(content, m.content) {
		m.told = ""
		return m.pool, m.pair
	}
	var pool *x509.CertPool
	var pair *tls.Certificate
	if err == nil {
		pool, pair, err = m.parse(content)
	}
	if err != nil {
		if err.Error() != m.told {
			m.log.Warn("a certificate or key was replaced by what cannot be used; the old one stays in use", "error", err)
			m.told = err.Error()
		}
		return m.pool, m.pair
	}
	m.pool, m.pair, m.content, m.told = pool, pair, content, ""
	m.log.Info("certificates were read again", "ca", m.files.CA, "cert", m.files.Cert)
	_ = WarnOfOpen.Check(m.files.Key, m.log) // without the renewed pair, the old one expires
	m.warnOfExpiry()
	return m.pool, m.pair
}

func equal(a, b [3][]byte) bool {
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func (m *Material) read() (content [3][]byte, err error) {
	for i, path := range []string{m.files.CA, m.files.Cert, m.files.Key} {
		if path == "" {
			continue
		}
		if content[i], err = os.ReadFile(path); err != nil {
			return content, script.Errorf(script.Invalid, path, "cannot be read: %w", err)
		}
	}
	return content, nil
}

func (m *Material) parse(content [3][]byte) (pool *x509.CertPool, pair *tls.Certificate, err error) {
	if m.files.CA != "" {
		if pool, err = parsePool(m.files.CA, content[0]); err != nil {
			return nil, nil, err
		}
	}
	if m.files.Cert == "" {
		return pool, nil, nil
	}
	loaded, err := tls.X509KeyPair(content[1], content[2])
	if err != nil {
		return nil, nil, script.Errorf(script.Invalid, m.files.Cert, "and the key %s cannot be used together: %w", m.files.Key, err)
	}
	return pool, &loaded, nil
}

// parsePool reads certificates, each of which has to be one: a bundle that is cut off
// must not lose those at its end unnoticed.
func parsePool(path string, data []byte) (*x509.CertPool, error) {
	pool, n := x509.NewCertPool(), 0
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, script.Errorf(script.Invalid, path, "holds a certificate that cannot be read: %w", err)
		}
		pool.AddCert(cert)
		n++
	}
	if n == 0 {
		return nil, script.Errorf(script.Invalid, path, "holds no certificate in PEM")
	}
	return pool, nil
}

// warnOfExpiry says that the own certificate is not good now: it may be in a moment,
// so it is no error.
func (m *Material) warnOfExpiry() {
	if m.pair == nil {
		return
	}
	now := time.Now()
	if leaf := m.pair.Leaf; now.After(leaf.NotAfter) || now.Before(leaf.NotBefore) {
		m.log.Warn("the certificate is not valid now: others will refuse it; renew it, or set this machine's clock",
			"cert", m.files.Cert, "not_before", leaf.NotBefore, "not_after", leaf.NotAfter)
	}
}
