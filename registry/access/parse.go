package access

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/script"
)

// maxPolicyBytes bounds the file of a policy.
const maxPolicyBytes = 4 << 20

// Load reads the policy in the file. Errors are Invalid and name the file; they
// are one for each fault, joined, as Parse's are.
func Load(path string, verifier Verifier) (*Policy, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, script.Errorf(script.Invalid, path, "cannot be read: %w", err)
	}
	return Parse(path, data, verifier)
}

// Parse reads a policy in YAML; docs/security.md describes it. name stands for the
// file in errors: each names the line, the subject and the field, as in
// "policy.yaml:7: subject ci: grants[0].roles[1]: …". The verifier verifies JSON Web Tokens;
// without one the policy knows nobody by them.
func Parse(name string, data []byte, verifier Verifier) (*Policy, error) {
	if len(data) > maxPolicyBytes {
		return nil, script.Errorf(script.Invalid, name, "has %d bytes; an access policy has at most %d", len(data), maxPolicyBytes)
	}
	p := &parser{file: name, names: map[string]int{}, tokens: map[[sha256.Size]byte]int{}}
	policy := p.document(data)
	if len(p.faults) == 0 {
		policy.verifier = verifier
		return policy, nil
	}
	slices.SortStableFunc(p.faults, func(a, b fault) int { return cmp.Compare(a.line, b.line) })
	errs := make([]error, len(p.faults))
	for i, f := range p.faults {
		errs[i] = &script.Error{Kind: script.Invalid, Message: fmt.Sprintf("%s:%d: %s", p.file, f.line, f.message)}
	}
	return nil, errors.Join(errs...)
}

type fault struct {
	line    int
	message string
}

// parser collects the faults of a policy.
type parser struct {
	file    string
	subject string                    // that is being read
	names   map[string]int            // of the subjects, and their lines
	tokens  map[[sha256.Size]byte]int // and their lines
	issuers []Issuer
	faults  []fault
}

// fault notes what is wrong with the field that n holds.
func (p *parser) fault(n *yaml.Node, field, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if field != "" {
		message = printable(field) + ": " + message
	}
	if p.subject != "" {
		message = "subject " + printable(p.subject) + ": " + message
	}
	p.faults = append(p.faults, fault{line: max(1, n.Line), message: message})
}

// printable quotes what must not reach a terminal as it is.
func printable(s string) string {
	if q := strconv.Quote(s); q != `"`+s+`"` {
		return q
	}
	return s
}

var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

func (p *parser) document(data []byte) *Policy {
	docs := yaml.NewDecoder(bytes.NewReader(data))
	var doc, another yaml.Node
	err := docs.Decode(&doc)
	if errors.Is(err, io.EOF) {
		p.fault(&yaml.Node{}, "", "is empty: want subjects")
		return nil
	}
	if err != nil {
		at := yaml.Node{}
		message := err.Error()
		if parts := yamlError.FindStringSubmatch(message); parts != nil {
			at.Line, _ = strconv.Atoi(parts[1])
			message = parts[2]
		}
		p.fault(&at, "", "is not YAML: %s", message)
		return nil
	}
	if err := docs.Decode(&another); !errors.Is(err, io.EOF) {
		p.fault(&another, "", "there is more than one document in the file")
		return nil
	}
	return p.policy(doc.Content[0])
}

func (p *parser) policy(n *yaml.Node) *Policy {
	fields := p.object(n, "", "subjects", "issuers")
	list := fields["subjects"]
	if list == nil {
		if fields != nil {
			p.fault(n, "subjects", "is missing: without subjects nobody may do anything")
		}
		return nil
	}
	for i, item := range p.list(fields["issuers"], "issuers") {
		p.issuers = append(p.issuers, p.issuer(item, fmt.Sprintf("issuers[%d]", i)))
	}
	policy := &Policy{issuers: p.issuers}
	for i, item := range p.list(list, "subjects") {
		s := p.readSubject(item, fmt.Sprintf("subjects[%d]", i))
		policy.subjects = append(policy.subjects, s)
		policy.namesAgents = policy.namesAgents || len(s.agents) > 0
	}
	p.subject = ""
	return policy
}

// names of subjects stand in the audit trail, with '+' between several.
var subjectName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@/:-]{0,62}$`)

// Names that identities have without a policy.
var reservedNames = []string{"anonymous"}

func (p *parser) readSubject(n *yaml.Node, path string) (s subject) {
	p.subject = called(n, path)
	fields := p.object(n, "", "name", "certificates", "tokens", "jwts", "uids", "agents", "grants")
	if fields == nil {
		return s
	}
	s.name = p.name(n, fields["name"])
	for i, item := range p.list(fields["certificates"], "certificates") {
		s.certificates = append(s.certificates, p.certificate(item, fmt.Sprintf("certificates[%d]", i)))
	}
	for i, item := range p.list(fields["tokens"], "tokens") {
		s.tokens = append(s.tokens, p.token(item, fmt.Sprintf("tokens[%d]", i)))
	}
	for i, item := range p.list(fields["jwts"], "jwts") {
		s.jwts = append(s.jwts, p.jwt(item, fmt.Sprintf("jwts[%d]", i)))
	}
	for i, item := range p.list(fields["uids"], "uids") {
		s.uids = append(s.uids, p.uid(item, fmt.Sprintf("uids[%d]", i)))
	}
	if len(s.certificates)+len(s.tokens)+len(s.jwts)+len(s.uids) == 0 {
		p.fault(n, "", "nobody can be this subject: give it certificates, tokens, jwts or uids")
	}
	for i, item := range p.list(fields["agents"], "agents") {
		s.agents = append(s.agents, p.agentName(item, fmt.Sprintf("agents[%d]", i)))
	}
	if fields["grants"] == nil {
		p.fault(n, "grants", "is missing: add what the subject may do, such as [{roles: [read], tenants: [\"*\"]}]")
	}
	for i, item := range p.list(fields["grants"], "grants") {
		s.grants = append(s.grants, p.grant(item, fmt.Sprintf("grants[%d]", i)))
	}
	return s
}

// called returns what errors call the subject: its name if that is valid, else its path.
func called(n *yaml.Node, path string) string {
	if n.Kind != yaml.MappingNode {
		return path
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "name" && subjectName.MatchString(n.Content[i+1].Value) {
			return n.Content[i+1].Value
		}
	}
	return path
}

func (p *parser) name(parent, n *yaml.Node) string {
	if n == nil {
		p.fault(parent, "name", "is missing: add the name that the audit trail is to show")
		return ""
	}
	name, ok := p.text(n, "name")
	if !ok {
		return ""
	}
	if !subjectName.MatchString(name) {
		p.fault(n, "name", "%.80q is no name: want at most 63 letters, digits and ._@/:- , a letter or digit first", name)
		return ""
	}
	if slices.Contains(reservedNames, name) {
		p.fault(n, "name", "%q is who asks a registry that has no policy: take another name", name)
		return ""
	}
	if first, ok := p.names[name]; ok {
		p.fault(n, "name", "another subject has it, in line %d: a subject can have several certificates, tokens, jwts, uids and grants", first)
	} else {
		p.names[name] = n.Line
	}
	return name
}

func (p *parser) certificate(n *yaml.Node, path string) (c certificate) {
	fields := p.object(n, path, "commonName", "dns", "uri")
	if fields == nil {
		return c
	}
	if len(fields) == 0 {
		p.fault(n, path, "matches no certificate: name a commonName, dns or uri of it")
		return c
	}
	// A star stands for what is between two separators, so that none crosses from
	// one domain or path into another.
	c.commonName = p.pattern(fields["commonName"], path+".commonName", `.+`)
	c.dns = p.pattern(fields["dns"], path+".dns", `[^.]+`)
	c.uri = p.pattern(fields["uri"], path+".uri", `[^/]+`)
	return c
}

const maxPattern = 2048

// pattern compiles a text in which '*' stands for the expression.
func (p *parser) pattern(n *yaml.Node, field, star string) *regexp.Regexp {
	if n == nil {
		return nil
	}
	text, ok := p.text(n, field)
	if !ok {
		return nil
	}
	if text == "" || len(text) > maxPattern {
		p.fault(n, field, "has %d characters; want 1 to %d", len(text), maxPattern)
		return nil
	}
	if star == `[^.]+` {
		text = strings.ToLower(text) // names in DNS have no case
	}
	parts := strings.Split(text, "*")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	compiled, err := regexp.Compile(`\A` + strings.Join(parts, star) + `\z`)
	if err != nil {
		p.fault(n, field, "cannot be used: %v", err)
	}
	return compiled
}

func (p *parser) uid(n *yaml.Node, field string) uint32 {
	var v uint64
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(&v) != nil || v > math.MaxUint32 {
		p.fault(n, field, "is no uid: want the number of a user, such as 1000")
		return 0
	}
	return uint32(v)
}

func (p *parser) grant(n *yaml.Node, path string) (g Grant) {
	fields := p.object(n, path, "roles", "tenants")
	if fields == nil {
		return g
	}
	if fields["roles"] == nil {
		p.fault(n, path+".roles", "is missing: want some of %s", allRoles)
	}
	for i, item := range p.list(fields["roles"], path+".roles") {
		field := fmt.Sprintf("%s.roles[%d]", path, i)
		text, ok := p.text(item, field)
		if ok && !slices.Contains(allRoles, Role(text)) {
			p.fault(item, field, "%.80q is no role: want some of %s", text, allRoles)
		}
		g.Roles = append(g.Roles, Role(text))
	}
	if fields["tenants"] == nil {
		p.fault(n, path+".tenants", "is missing: name tenants, or [\"*\"] for all of them")
		return g
	}
	var globs []string
	for i, item := range p.list(fields["tenants"], path+".tenants") {
		if text, ok := p.text(item, fmt.Sprintf("%s.tenants[%d]", path, i)); ok {
			globs = append(globs, text)
		}
	}
	if len(globs) == 0 {
		return g
	}
	selector, err := script.ParseSelector(globs)
	if err != nil {
		p.fault(fields["tenants"], path+".tenants", "%s", script.AsError(err).Message)
	}
	g.Tenants = selector
	return g
}

var allRoles = []Role{Read, Publish, Release, Admin}

// object returns the values of a mapping's fields, and notes those that are not
// known or there twice. It returns nil if n is no mapping.
func (p *parser) object(n *yaml.Node, path string, known ...string) map[string]*yaml.Node {
	if n.Kind != yaml.MappingNode {
		p.fault(n, path, "want fields: %s", strings.Join(known, ", "))
		return nil
	}
	fields := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		field := key.Value
		if path != "" {
			field = path + "." + key.Value
		}
		switch {
		case !slices.Contains(known, key.Value):
			p.fault(key, field, "is not a field; the fields here are %s", strings.Join(known, ", "))
		case fields[key.Value] != nil:
			p.fault(key, field, "is there twice, first in line %d", fields[key.Value].Line)
		default:
			fields[key.Value] = value
		}
	}
	return fields
}

// list returns what is in a list, which has something in it if it is there.
func (p *parser) list(n *yaml.Node, field string) []*yaml.Node {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		p.fault(n, field, "want a list with something in it")
		return nil
	}
	return n.Content
}

func (p *parser) text(n *yaml.Node, field string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		p.fault(n, field, "want text; put it in quotes if it looks like something else")
		return "", false
	}
	return n.Value, true
}
