package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// MinTokenLen is how many characters a token has at least. Of tokens, a policy
// holds no more than digests, so it is here that one that can be guessed is refused.
const MinTokenLen = 20

// Policy maps who can show what to what they may do. It is immutable; the zero
// Policy knows nobody.
//
// A caller that shows a token is known by it alone: a token that is not known is
// refused, whatever else the caller has. Without a token it is known by its
// certificate, and without that by its user on this machine.
//
// If several subjects match, the caller is all of them: their grants add up, and
// its name is theirs with "+" in between.
//
// A token that the policy does not name can be a JSON Web Token of one of its issuers.
type Policy struct {
	subjects []subject
	issuers  []Issuer
	verifier Verifier
	// namesAgents: a subject has agents, so that others can be none.
	namesAgents bool
}

// subject is an entry of a policy.
type subject struct {
	name         string
	certificates []certificate
	tokens       []token
	jwts         []jwt
	uids         []uint32
	grants       []Grant
	agents       []agentName
}

// token is a bearer token.
type token struct {
	digest  [sha256.Size]byte
	expires time.Time // zero: never
}

// certificate says which certificates. Every pattern that is not nil has to match.
type certificate struct {
	commonName, dns, uri *regexp.Regexp
}

// Credentials are what a caller has shown. The zero value is a caller that has
// shown nothing.
type Credentials struct {
	// Peer is where the caller is: an address, or "unix".
	Peer string
	// Token is the bearer token; "" for none.
	Token string
	// Certificate of the caller, whose chain was verified; nil for none.
	Certificate *x509.Certificate
	// Unix says that the caller is on this machine, and UID as whom.
	Unix bool
	UID  uint32
}

// Reason is why a caller is not known; they label a metric.
type Reason string

// The reasons.
const (
	NothingShown       Reason = "nothing_shown"
	UnknownToken       Reason = "unknown_token"
	ExpiredToken       Reason = "expired_token"
	InvalidJWT         Reason = "invalid_jwt"
	UnknownJWT         Reason = "unknown_jwt"
	PlaintextToken     Reason = "plaintext_token"
	MalformedToken     Reason = "malformed_token"
	UnknownCertificate Reason = "unknown_certificate"
	ExpiredCertificate Reason = "expired_certificate"
	UnknownUser        Reason = "unknown_user"
	FailedHandshake    Reason = "failed_handshake"
)

// Reasons returns all of them.
func Reasons() []Reason {
	return []Reason{
		NothingShown, UnknownToken, ExpiredToken, InvalidJWT, UnknownJWT, PlaintextToken, MalformedToken,
		UnknownCertificate, ExpiredCertificate, UnknownUser, FailedHandshake,
	}
}

// Unknown is the error for a caller that is not known. A *script.Error of kind
// Denied is in its chain.
type Unknown struct {
	Reason Reason
	err    *script.Error
}

// NewUnknown returns the error with a message for the caller.
func NewUnknown(reason Reason, format string, args ...any) *Unknown {
	return &Unknown{Reason: reason, err: script.Errorf(script.Denied, "", format, args...)}
}

// Error implements error.
func (u *Unknown) Error() string { return u.err.Error() }

// Unwrap returns the *script.Error.
func (u *Unknown) Unwrap() error { return u.err }

// HasCertificates reports whether p knows anybody by a certificate.
func (p *Policy) HasCertificates() bool {
	return slices.ContainsFunc(p.subjects, func(s subject) bool { return len(s.certificates) > 0 })
}

// Identify returns who the caller is at the time now, or an *Unknown that says
// what to show.
func (p *Policy) Identify(c Credentials, now time.Time) (Identity, error) {
	switch {
	case c.Token != "":
		return p.byToken(c, now)
	case c.Certificate != nil:
		return p.byCertificate(c, now)
	case c.Unix:
		return p.byUID(c)
	}
	return Identity{}, NewUnknown(NothingShown,
		"the registry does not know who asks: show it a client certificate or a bearer token that its access policy names (scriptctl: --cert and --key, or --token-file)")
}

func (p *Policy) byToken(c Credentials, now time.Time) (Identity, error) {
	if len(c.Token) < MinTokenLen {
		return Identity{}, NewUnknown(MalformedToken, "a token has at least %d characters: is this the right one?", MinTokenLen)
	}
	digest := sha256.Sum256([]byte(c.Token))
	var expires time.Time
	who, ok := p.identity(c, func(s subject) bool {
		known := false
		for _, t := range s.tokens {
			if subtle.ConstantTimeCompare(t.digest[:], digest[:]) == 1 {
				known, expires = true, t.expires
			}
		}
		return known
	})
	if !ok {
		if issuer, ok := p.issuerOf(c.Token); ok {
			return p.byJWT(c, issuer, now)
		}
		return Identity{}, NewUnknown(UnknownToken, "the registry's access policy does not name this token: is it the right one, and of this registry?")
	}
	if !expires.IsZero() && !now.Before(expires) {
		return Identity{}, NewUnknown(ExpiredToken, "the token of %s has expired at %s: make another with `scriptctl token`", who.Name, expires.UTC().Format(time.RFC3339))
	}
	who.Expires = expires
	return who, nil
}

func (p *Policy) byCertificate(c Credentials, now time.Time) (Identity, error) {
	cert := c.Certificate
	if now.After(cert.NotAfter) {
		// It was good when the connection was made.
		return Identity{}, NewUnknown(ExpiredCertificate, "the client certificate has expired at %s: renew it and connect again", cert.NotAfter.UTC().Format(time.RFC3339))
	}
	who, ok := p.identity(c, func(s subject) bool {
		return slices.ContainsFunc(s.certificates, func(want certificate) bool { return want.matches(cert) })
	})
	if !ok {
		return Identity{}, NewUnknown(UnknownCertificate, "the registry's access policy does not name the client certificate: %s", describe(cert))
	}
	who.Expires = cert.NotAfter
	return who, nil
}

func (p *Policy) byUID(c Credentials) (Identity, error) {
	who, ok := p.identity(c, func(s subject) bool { return slices.Contains(s.uids, c.UID) })
	if !ok {
		return Identity{}, NewUnknown(UnknownUser, "the registry's access policy does not name the user with uid %d: add the uid to a subject, or show a token (scriptctl: --token-file)", c.UID)
	}
	return who, nil
}

// identity returns the identity of all subjects that match; ok is false if none
// does. It looks at all of them, so that the time it takes says nothing.
func (p *Policy) identity(c Credentials, match func(subject) bool) (who Identity, ok bool) {
	var names []string
	cert := c.Certificate
	if c.Token != "" {
		cert = nil // the caller is not known by it
	}
	for _, s := range p.subjects {
		if match(s) {
			names = append(names, s.name)
			who.Grants = append(who.Grants, s.grants...)
			for _, name := range s.agents {
				who.Agents = append(who.Agents, name.of(cert))
			}
		}
	}
	who.Subject = strings.Join(names, "+")
	who.Name, who.Peer, who.AnyAgent = who.Subject, c.Peer, !p.namesAgents
	return who, len(names) > 0
}

func (want certificate) matches(cert *x509.Certificate) bool {
	if want.commonName != nil && !want.commonName.MatchString(cert.Subject.CommonName) {
		return false
	}
	if want.dns != nil && !slices.ContainsFunc(cert.DNSNames, func(name string) bool {
		return want.dns.MatchString(strings.ToLower(name))
	}) {
		return false
	}
	if want.uri == nil {
		return true
	}
	for _, uri := range cert.URIs {
		if want.uri.MatchString(uri.String()) {
			return true
		}
	}
	return false
}

// maxDescribed bounds the names of one kind in the description of a certificate.
const maxDescribed = 3

// describe names what a policy could know the certificate by.
func describe(cert *x509.Certificate) string {
	parts := []string{"commonName " + quoted(cert.Subject.CommonName)}
	for _, name := range cert.DNSNames[:min(maxDescribed, len(cert.DNSNames))] {
		parts = append(parts, "dns "+quoted(name))
	}
	for _, uri := range cert.URIs[:min(maxDescribed, len(cert.URIs))] {
		parts = append(parts, "uri "+quoted(uri.String()))
	}
	return strings.Join(parts, ", ")
}

// quoted returns s, which a stranger wrote, for a message.
func quoted(s string) string {
	const longest = 200
	return strconv.Quote(s[:min(longest, len(s))])
}
