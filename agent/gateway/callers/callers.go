// Package callers knows the callers of an agent's TCP port by tokens and client certificates. A file
// names them and what they may use, as agentd --allow does for users of the node.
package callers

import (
	"crypto/sha256"
	"crypto/x509"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Header is that of a request's token. It is not Authorization, which gateways pass on from their clients.
const Header = "Scriptorium-Token"

const (
	// minToken is how many characters a token has at least. The file holds digests, so this is where a
	// token that can be guessed is refused.
	minToken = 20
	// maxToken bounds what is hashed before the caller is known.
	maxToken = 512
)

// Callers are those of a file. They are immutable.
type Callers struct {
	callers []caller
	tokens  map[[sha256.Size]byte]gateway.Grant
}

type caller struct {
	grant        gateway.Grant
	certificates []certificate
}

// certificate says which certificates are meant. Each field that is not empty has to match.
type certificate struct {
	CommonName string `yaml:"commonName"`
	DNS        string `yaml:"dns"`
	URI        string `yaml:"uri"`
}

func (c certificate) matches(cert *x509.Certificate) bool {
	return (c.CommonName == "" || c.CommonName == cert.Subject.CommonName) &&
		(c.DNS == "" || slices.ContainsFunc(cert.DNSNames, func(name string) bool { return strings.EqualFold(name, c.DNS) })) &&
		(c.URI == "" || slices.ContainsFunc(cert.URIs, func(uri *url.URL) bool { return uri.String() == c.URI }))
}

// Identify returns what the caller may use that shows these tokens, or this certificate, whose chain was
// verified. A certificate that the file names decides alone: then the token can only be a client's of the
// gateway. Errors are Denied.
func (c *Callers) Identify(tokens []string, cert *x509.Certificate, now time.Time) (gateway.Grant, error) {
	if cert != nil {
		for _, known := range c.callers {
			if !slices.ContainsFunc(known.certificates, func(want certificate) bool { return want.matches(cert) }) {
				continue
			}
			if now.After(cert.NotAfter) { // it was good when the connection was made
				return gateway.Grant{}, denied("the client certificate has expired at %s: renew it and connect again", cert.NotAfter.UTC().Format(time.RFC3339))
			}
			return known.grant, nil
		}
	}
	switch {
	case len(tokens) == 0 && cert != nil:
		return gateway.Grant{}, denied("the file of agentd --http-callers names neither the client certificate of %.80q nor a token: send one in the header %s", cert.Subject.String(), Header)
	case len(tokens) == 0:
		return gateway.Grant{}, denied("the request shows no caller: send a token in the header %s, or connect with a client certificate", Header)
	case len(tokens) > 1:
		return gateway.Grant{}, denied("the request has %d headers %s: have the gateway overwrite the client's", len(tokens), Header)
	case len(tokens[0]) < minToken || len(tokens[0]) > maxToken:
		return gateway.Grant{}, denied("a token has %d to %d characters: is this the right one?", minToken, maxToken)
	}
	// How long the look-up takes says something of a digest, and nothing of the token that it is of.
	grant, ok := c.tokens[sha256.Sum256([]byte(tokens[0]))]
	if !ok {
		return gateway.Grant{}, denied("the file of agentd --http-callers does not name this token: is it the right one, and of this agent?")
	}
	return grant, nil
}

// HasCertificates reports whether a caller is known by a certificate.
func (c *Callers) HasCertificates() bool {
	return slices.ContainsFunc(c.callers, func(known caller) bool { return len(known.certificates) > 0 })
}

func denied(format string, args ...any) error {
	return script.Errorf(script.Denied, "caller", format, args...)
}
