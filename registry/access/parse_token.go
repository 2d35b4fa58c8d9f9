package access

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

const digestPrefix = "sha256:"

// token reads a digest, or a digest and when its token expires.
func (p *parser) token(n *yaml.Node, path string) (t token) {
	if n.Kind != yaml.MappingNode {
		t.digest = p.digest(n, path)
		return t
	}
	fields := p.object(n, path, "digest", "expires")
	if fields["digest"] == nil {
		p.fault(n, path+".digest", "is missing: scriptctl token prints it")
	} else {
		t.digest = p.digest(fields["digest"], path+".digest")
	}
	if at := fields["expires"]; at != nil {
		t.expires = p.time(at, path+".expires")
	}
	return t
}

// time reads a time, or a day, which ends with it.
func (p *parser) time(n *yaml.Node, field string) time.Time {
	if n.Kind == yaml.ScalarNode {
		if at, err := time.Parse(time.RFC3339, n.Value); err == nil {
			return at
		}
		if day, err := time.Parse(time.DateOnly, n.Value); err == nil {
			return day.AddDate(0, 0, 1)
		}
	}
	p.fault(n, field, "is no time: want a day such as 2027-01-31, or a time such as 2027-01-31T12:00:00Z")
	return time.Time{}
}

// digest reads the digest of a token. What is at fault is not repeated: it may be the
// token itself.
func (p *parser) digest(n *yaml.Node, field string) (digest [sha256.Size]byte) {
	const want = "want sha256: and 64 hexadecimal digits, as from: printf %s \"$TOKEN\" | sha256sum"
	text, ok := p.text(n, field)
	if !ok {
		return digest
	}
	digits, ok := strings.CutPrefix(text, digestPrefix)
	if !ok {
		p.fault(n, field, "is not the digest of a token; a token itself does not belong here: %s", want)
		return digest
	}
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != sha256.Size {
		p.fault(n, field, "is not the digest of a token: %s", want)
		return digest
	}
	digest = [sha256.Size]byte(raw)
	if digest == sha256.Sum256(nil) {
		p.fault(n, field, "is the digest of nothing: was $TOKEN empty?")
	}
	if first, ok := p.tokens[digest]; ok {
		p.fault(n, field, "is in line %d already: a token belongs to one subject", first)
	}
	p.tokens[digest] = n.Line
	return digest
}

// issuerName is what subjects name an issuer by.
var issuerName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

func (p *parser) issuer(n *yaml.Node, path string) (i Issuer) {
	fields := p.object(n, path, "name", "url", "audiences", "keysURL", "caFile", "tokenFile")
	if fields == nil {
		return i
	}
	optional := func(name string) (text string) {
		if field := fields[name]; field != nil {
			text, _ = p.text(field, path+"."+name)
		}
		return text
	}
	i = Issuer{
		Name: optional("name"), URL: optional("url"), KeysURL: optional("keysURL"),
		CAFile: optional("caFile"), TokenFile: optional("tokenFile"),
	}
	if !issuerName.MatchString(i.Name) {
		p.fault(n, path+".name", "%.80q is no name: want at most 63 small letters, digits and -", i.Name)
	}
	if slices.ContainsFunc(p.issuers, func(other Issuer) bool { return other.Name == i.Name }) {
		p.fault(n, path+".name", "another issuer has it")
	}
	if slices.ContainsFunc(p.issuers, func(other Issuer) bool { return other.URL == i.URL }) {
		p.fault(n, path+".url", "another issuer has it: an issuer can have several audiences")
	}
	for name, text := range map[string]string{"url": i.URL, "keysURL": i.KeysURL} {
		if text == "" && name == "keysURL" {
			continue
		}
		if u, err := url.Parse(text); err != nil || u.Scheme != "https" || u.Host == "" {
			p.fault(n, path+"."+name, "%.80q is no address: want https://", text)
		}
	}
	if fields["audiences"] == nil {
		p.fault(n, path+".audiences", "is missing: name the audience that callers ask the issuer for, such as scriptorium")
	}
	for j, item := range p.list(fields["audiences"], path+".audiences") {
		if text, ok := p.text(item, fmt.Sprintf("%s.audiences[%d]", path, j)); ok {
			i.Audiences = append(i.Audiences, text)
		}
	}
	return i
}

func (p *parser) jwt(n *yaml.Node, path string) (j jwt) {
	fields := p.object(n, path, "issuer", "subject", "claims")
	if fields == nil {
		return j
	}
	if fields["issuer"] == nil {
		p.fault(n, path+".issuer", "is missing: name one of issuers")
	} else if name, ok := p.text(fields["issuer"], path+".issuer"); ok {
		if !slices.ContainsFunc(p.issuers, func(i Issuer) bool { return i.Name == name }) {
			p.fault(fields["issuer"], path+".issuer", "%.80q is not among issuers", name)
		}
		j.issuer = name
	}
	if fields["subject"] == nil && fields["claims"] == nil {
		p.fault(n, path, "matches every token of the issuer: name a subject, or claims")
	}
	// A star stands for what is between two separators of a subject such as
	// repo:acme/edge:ref:refs/heads/main or system:serviceaccount:acme:deployer.
	const star = `[^:/]+`
	j.subject = p.pattern(fields["subject"], path+".subject", star)
	claims := fields["claims"]
	if claims == nil {
		return j
	}
	if claims.Kind != yaml.MappingNode || len(claims.Content) == 0 {
		p.fault(claims, path+".claims", "want names of claims and what they say")
		return j
	}
	j.claims = map[string]*regexp.Regexp{}
	for k := 0; k+1 < len(claims.Content); k += 2 {
		name := claims.Content[k].Value
		j.claims[name] = p.pattern(claims.Content[k+1], path+".claims."+name, star)
	}
	return j
}
