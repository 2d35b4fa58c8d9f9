package access

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Issuer signs JSON Web Tokens: an OpenID Connect provider, or a Kubernetes API server.
type Issuer struct {
	// Name is how subjects name it.
	Name string
	// URL is the claim "iss" of its tokens. It begins with https://.
	URL string
	// Audiences name the registry: the claim "aud" must have one of them.
	Audiences []string
	// KeysURL has its public keys, as a JSON Web Key Set. If empty, URL's discovery
	// document names it.
	KeysURL string
	// CAFile has the certificates that vouch for the server of the keys; the system's if
	// empty. TokenFile has a bearer token that the server wants; none if empty.
	CAFile, TokenFile string
}

// Claims are what a token says whose signature, times, issuer and audience were verified.
type Claims struct {
	Subject string
	Expires time.Time
	All     map[string]any
}

// Verifier verifies the tokens of issuers. An error is an *Unknown, or of another kind if the
// verifier cannot say now.
type Verifier interface {
	Verify(issuer Issuer, token string, now time.Time) (Claims, error)
}

// jwt says which tokens of an issuer.
type jwt struct {
	issuer  string // its name
	subject *regexp.Regexp
	claims  map[string]*regexp.Regexp
}

// Issuers returns the issuers whose tokens p knows.
func (p *Policy) Issuers() []Issuer { return p.issuers }

// issuerOf returns the issuer that the token names, if p knows it. Nothing of the token is
// verified yet.
func (p *Policy) issuerOf(token string) (Issuer, bool) {
	if len(p.issuers) == 0 || p.verifier == nil {
		return Issuer{}, false
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return Issuer{}, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return Issuer{}, false
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return Issuer{}, false
	}
	i := slices.IndexFunc(p.issuers, func(known Issuer) bool { return known.URL == claims.Issuer })
	if i < 0 {
		return Issuer{}, false
	}
	return p.issuers[i], true
}

func (p *Policy) byJWT(c Credentials, issuer Issuer, now time.Time) (Identity, error) {
	claims, err := p.verifier.Verify(issuer, c.Token, now)
	if err != nil {
		return Identity{}, err
	}
	who, ok := p.identity(c, func(s subject) bool {
		return slices.ContainsFunc(s.jwts, func(want jwt) bool { return want.issuer == issuer.Name && want.matches(&claims) })
	})
	if !ok {
		return Identity{}, NewUnknown(UnknownJWT, "the registry's access policy does not name the token's subject %s of the issuer %s", quoted(claims.Subject), issuer.Name)
	}
	who.Name += "(" + claimName(claims.Subject) + ")"
	who.Expires = claims.Expires
	return who, nil
}

// claimName returns the subject of a token for the audit trail.
func claimName(subject string) string {
	const longest = 200
	return strings.Map(func(r rune) rune {
		if r < '!' || r > '~' || r == '+' || r == '(' || r == ')' {
			return '_'
		}
		return r
	}, subject[:min(longest, len(subject))])
}

func (want jwt) matches(c *Claims) bool {
	if want.subject != nil && !want.subject.MatchString(c.Subject) {
		return false
	}
	for name, pattern := range want.claims {
		if !slices.ContainsFunc(claimTexts(c.All[name]), pattern.MatchString) {
			return false
		}
	}
	return true
}

// claimTexts returns the texts of a claim: of a list, those of its members.
func claimTexts(claim any) []string {
	switch v := claim.(type) {
	case string:
		return []string{v}
	case bool:
		return []string{strconv.FormatBool(v)}
	case []any:
		var all []string
		for _, member := range v {
			if text, ok := member.(string); ok {
				all = append(all, text)
			}
		}
		return all
	}
	return nil
}

// Expiry says when a bearer token ends.
type Expiry struct {
	Subject string
	Expires time.Time
}

// String returns "ci at 2026-11-22T00:00:00Z".
func (e Expiry) String() string {
	return fmt.Sprintf("%s at %s", e.Subject, e.Expires.UTC().Format(time.RFC3339))
}

// Expiries returns when the bearer tokens that expire do so, the first one first.
func (p *Policy) Expiries() []Expiry {
	var all []Expiry
	for _, s := range p.subjects {
		for _, t := range s.tokens {
			if !t.expires.IsZero() {
				all = append(all, Expiry{s.name, t.expires})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Expiry) int { return a.Expires.Compare(b.Expires) })
	return all
}
