package access

import (
	"crypto/x509"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// AgentName stands for names of agents.
type AgentName struct {
	pattern *regexp.Regexp // nil: one of names
	names   []string
}

// Matches reports whether n stands for the name.
func (n AgentName) Matches(name string) bool {
	if n.pattern != nil {
		return n.pattern.MatchString(name)
	}
	return slices.Contains(n.names, name)
}

// agentName is an AgentName as a policy has it.
type agentName struct {
	pattern *regexp.Regexp
	field   string // of the caller's certificate, if pattern is nil
}

// Fields of certificates that name agents.
const (
	fromCommonName = "{commonName}"
	fromDNS        = "{dns}"
)

// of returns the names that n stands for if the caller shows the certificate, or none.
func (n agentName) of(cert *x509.Certificate) AgentName {
	switch {
	case n.pattern != nil:
		return AgentName{pattern: n.pattern}
	case cert == nil:
		return AgentName{}
	case n.field == fromCommonName:
		return AgentName{names: []string{cert.Subject.CommonName}}
	}
	return AgentName{names: cert.DNSNames}
}

func (p *parser) agentName(n *yaml.Node, field string) (name agentName) {
	text, ok := p.text(n, field)
	switch {
	case !ok:
	case text == fromCommonName || text == fromDNS:
		name.field = text
	case strings.ContainsAny(text, "{}"):
		p.fault(n, field, "%.80q is no name of agents: want a name, in which '*' stands for any characters, or %s or %s of the agent's certificate", text, fromCommonName, fromDNS)
	default:
		name.pattern = p.pattern(n, field, `.*`)
	}
	return name
}
