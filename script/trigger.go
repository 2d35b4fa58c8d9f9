package script

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Trigger says on which event a script runs, and about which requests. Its lists and its map are
// not changed.
type Trigger struct {
	Event string // such as "pre-route"; a DNS label, or "" for none
	// Priority orders the scripts of an event: those with a higher one run first.
	Priority int
	Match    Match
}

// Match says about which requests a script runs: all conditions that are set must hold.
type Match struct {
	// Hosts are names in lower case. "*.shop.example" is for all names below shop.example.
	Hosts []string
	// PathPrefixes are paths as CleanPath writes them. They match whole segments: "/cart" is for
	// /cart and /cart/7, and not for /carts.
	PathPrefixes []string
	Methods      []string
	// Headers are the values that headers must have, by name in lower case; AnyValue for any.
	Headers map[string]string
}

// AnyValue is the value in Match.Headers of a header that only must be there.
const AnyValue = "*"

// Bounds of a Trigger.
const (
	MaxPriority   = 1_000_000 // and -MaxPriority is the lowest
	MaxConditions = 16        // in each list of a Match, and headers
	MaxMatchBytes = 4 << 10   // of all texts of a Match
)

// Bounds of a chain, which is what one event makes of a tenant's scripts.
const (
	// MaxChain scripts may run on one event for one request.
	MaxChain = 16
	// MaxEventScripts enabled scripts of a tenant may have the same event: the registry refuses
	// more. The agent looks at each when the event comes.
	MaxEventScripts = 256
	// MaxEventLive of them run on an agent, which else refuses all requests of the event. Replicas of
	// the registry that have not seen each other's writes, and imports, let a few more through.
	MaxEventLive = 2 * MaxEventScripts
)

// eventPrefix is what the name of an event follows where a script could be named, too.
const eventPrefix = "event="

// CutEvent returns the event and the tenant of text that is in the form "event=NAME/TENANT", which
// names all scripts of the tenant that run on the event. Neither is checked.
func CutEvent(text string) (event, tenant string, ok bool) {
	rest, ok := strings.CutPrefix(text, eventPrefix)
	if !ok {
		return "", "", false
	}
	event, tenant, _ = strings.Cut(rest, "/")
	return event, tenant, true
}

// IsZero reports whether no condition is set.
func (m Match) IsZero() bool {
	return len(m.Hosts)+len(m.PathPrefixes)+len(m.Methods)+len(m.Headers) == 0
}

// Equal reports whether both say the same, in the same order.
func (m Match) Equal(n Match) bool {
	return slices.Equal(m.Hosts, n.Hosts) && slices.Equal(m.PathPrefixes, n.PathPrefixes) &&
		slices.Equal(m.Methods, n.Methods) && maps.Equal(m.Headers, n.Headers)
}

// Equal reports whether both say the same.
func (t Trigger) Equal(u Trigger) bool {
	return t.Event == u.Event && t.Priority == u.Priority && t.Match.Equal(u.Match)
}

// Size returns how many bytes the texts of the match have.
func (m Match) Size() (n int) {
	for _, list := range [][]string{m.Hosts, m.PathPrefixes, m.Methods} {
		for _, text := range list {
			n += len(text)
		}
	}
	for name, value := range m.Headers {
		n += len(name) + len(value)
	}
	return n
}

// Validate returns an Invalid error that names the first field that is wrong; field is the path of
// t, such as "spec.trigger". The zero Trigger is valid.
func (t Trigger) Validate(field string) error {
	if t.Event == "" && t.Priority == 0 && t.Match.IsZero() {
		return nil
	}
	if err := ValidateLabel(field+".event", t.Event); err != nil {
		return err
	}
	if t.Priority < -MaxPriority || t.Priority > MaxPriority {
		return Errorf(Invalid, field+".priority", "%d is not between %d and %d", t.Priority, -MaxPriority, MaxPriority)
	}
	return t.Match.validate(field + ".match")
}

func (m Match) validate(field string) error {
	for _, c := range []struct {
		name  string
		texts []string
		check func(field, text string) error
	}{
		{"hosts", m.Hosts, validateHost}, {"pathPrefixes", m.PathPrefixes, validatePrefix}, {"methods", m.Methods, validateMethod},
	} {
		field := field + "." + c.name
		if len(c.texts) > MaxConditions {
			return tooMany(field, len(c.texts))
		}
		for i, text := range c.texts {
			at := fmt.Sprintf("%s[%d]", field, i)
			if err := c.check(at, text); err != nil {
				return err
			}
			if slices.Contains(c.texts[:i], text) {
				return Errorf(Invalid, at, "%s is there twice: remove one", quote(text))
			}
		}
	}
	if len(m.Headers) > MaxConditions {
		return tooMany(field+".headers", len(m.Headers))
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		if err := validateHeader(field+".headers", name, m.Headers[name]); err != nil {
			return err
		}
	}
	if n := m.Size(); n > MaxMatchBytes {
		return Errorf(Invalid, field, "has %d bytes of text, at most %d (4 KiB) are allowed", n, MaxMatchBytes)
	}
	return nil
}

func tooMany(field string, n int) error {
	return Errorf(Invalid, field, "has %d entries, at most %d are allowed", n, MaxConditions)
}

func validateHost(field, host string) error {
	const longest = 253
	name := strings.TrimPrefix(host, "*.")
	if len(name) <= longest && !slices.ContainsFunc(strings.Split(name, "."), func(label string) bool { return !isLabel(label) }) {
		return nil
	}
	return Errorf(Invalid, field, "%s is no host: want a name in lower case without a port, such as shop.example or *.shop.example", quote(host))
}

func validatePrefix(field, prefix string) error {
	switch clean := CleanPath(prefix); {
	case !strings.HasPrefix(prefix, "/"):
		return Errorf(Invalid, field, "%s does not begin with /", quote(prefix))
	case strings.ContainsFunc(prefix, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '?' || r == '#' }):
		return Errorf(Invalid, field, "%s has a character that no path has: write it as %%XX", quote(prefix))
	case strings.TrimSuffix(clean, "/") != strings.TrimSuffix(prefix, "/"):
		return Errorf(Invalid, field, "%s is never the beginning of a path, which gateways clean: write %s", quote(prefix), quote(clean))
	case prefix != "/" && strings.HasSuffix(prefix, "/"):
		return Errorf(Invalid, field, "%s ends with /: prefixes match whole segments, so write %s", quote(prefix), quote(strings.TrimRight(prefix, "/")))
	}
	return nil
}

func validateMethod(field, method string) error {
	if method == "" || !isToken(method) || strings.ToUpper(method) != method {
		return Errorf(Invalid, field, "%s is no method: want one in upper case, such as GET", quote(method))
	}
	return nil
}

func validateHeader(field, name, value string) error {
	at := field + "." + name
	switch {
	case name == "" || !isToken(name) || strings.ToLower(name) != name:
		return Errorf(Invalid, field, "%s is no name of a header: want one in lower case, such as x-beta", quote(name))
	case value == "":
		return Errorf(Invalid, at, "is empty: want a value, or %q for any", AnyValue)
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r >= 0x7f }) || strings.TrimSpace(value) != value:
		return Errorf(Invalid, at, "%s is no value of a header: want printable ASCII without blanks around it", quote(value))
	}
	return nil
}

// isToken reports whether the text consists of the characters of RFC 9110, section 5.6.2.
func isToken(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		letter, digit := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z', r >= '0' && r <= '9'
		return !letter && !digit && (r > '~' || !strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	})
}
