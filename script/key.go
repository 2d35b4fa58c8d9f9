package script

import (
	"fmt"
	"slices"
	"strings"
)

// By says of what a step takes a share.
type By string

// The values of By.
const (
	ByAgent By = ""    // of the agents: those run the candidate for all calls
	ByKey   By = "key" // of the keys of calls: the same keys on every agent
	// ByShadow takes a share of the calls, at random. The candidate runs after the live answer, and
	// nobody gets its result.
	ByShadow By = "shadow"
)

// Steps is what such steps are called.
func (b By) Steps() string {
	switch b {
	case ByKey:
		return "steps by key"
	case ByShadow:
		return "shadow steps"
	}
	return "steps"
}

// ParseBy reads "key"; field is its path.
func ParseBy(field, text string) (By, error) {
	if text != string(ByKey) {
		return ByAgent, Errorf(Invalid, field, "%.80q is not key: leave it out to take a share of the agents", text)
	}
	return ByKey, nil
}

// MaxKeyBytes is the length of the longest key. A call with a longer one counts as a call without.
const MaxKeyBytes = 1024

// MaxKeyName is how many bytes the name of a header, a cookie or a parameter has at most that is a KeySource.
const MaxKeyName = 128

// KeySource names the part of a client's request that is the key of a call: "request.remote_addr",
// or a name behind "request.headers.", "request.cookies." or "request.query_params.". The zero
// KeySource names none.
type KeySource string

// KeyPart is a part of a request that has keys.
type KeyPart string

// The parts. All but KeyAddress have names in them.
const (
	KeyHeader  KeyPart = "headers"
	KeyCookie  KeyPart = "cookies"
	KeyQuery   KeyPart = "query_params"
	KeyAddress KeyPart = "remote_addr"
)

const (
	keyPrefix    = "request."
	ownHeaders   = "scriptorium-"
	wantKeyParts = "want request.headers.NAME, request.cookies.NAME, request.query_params.NAME or request.remote_addr"
)

// ParseKeySource reads text, and makes lower case of a header's name; field is its path.
func ParseKeySource(field, text string) (KeySource, error) {
	part, name := KeySource(text).Parts()
	switch part {
	case KeyAddress:
		if text == keyPrefix+string(KeyAddress) {
			return KeySource(text), nil
		}
	case KeyHeader:
		name = strings.ToLower(name)
		if strings.HasPrefix(name, ownHeaders) {
			return "", Errorf(Invalid, field, "%s is a header of the agent's own, which it takes from no request: name another one", quote(name))
		}
		fallthrough
	case KeyCookie, KeyQuery:
		if isKeyName(name, part) {
			return KeySource(keyPrefix + string(part) + "." + name), nil
		}
	}
	return "", Errorf(Invalid, field, "%s is no part of a request that can be a key: "+wantKeyParts, quote(text))
}

// Parts returns the part of the request, and the name in it. Those of what ParseKeySource does not
// take are undefined.
func (s KeySource) Parts() (part KeyPart, name string) {
	rest, ok := strings.CutPrefix(string(s), keyPrefix)
	if !ok {
		return "", ""
	}
	of, name, _ := strings.Cut(rest, ".")
	return KeyPart(of), name
}

// isKeyName reports whether the part can have the name: headers and cookies have tokens.
func isKeyName(name string, part KeyPart) bool {
	if name == "" || len(name) > MaxKeyName {
		return false
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7f || part != KeyQuery && strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return true
}

// validateBy refuses what a step by key does not have, and one that takes no more keys than the steps
// before it, or comes after a share of the agents.
func (s Step) validateBy(at string, before []Step) error {
	switch {
	case s.By == ByAgent:
		return nil
	case s.By == ByShadow:
		return s.validateShadow(at, before)
	case s.By != ByKey:
		return Errorf(Invalid, at+".by", "%.80q is not key: leave it out to take a share of the agents", string(s.By))
	case s.Percent < 1 || s.Percent > 99:
		return Errorf(Invalid, at+".percent", "%d is not between 1 and 99: a step by key takes so many percent of the keys", s.Percent)
	}
	for i, b := range before {
		switch {
		case b.By == ByAgent && b.Selector == "":
			return Errorf(Invalid, at+".by", "step %d takes a share of the agents, which run the version whatever the key: put the steps by key before it", i+1)
		case b.By == ByKey && s.Percent <= b.Percent && s.Selector.Within(b.Selector):
			return Errorf(Invalid, at+".percent", "%d is not more than %d, the percent of the keys since step %d", s.Percent, b.Percent, i+1)
		}
	}
	return nil
}

// validateKey refuses a source that no step uses, or that ParseKeySource does not return.
func (p Plan) validateKey(field string) error {
	if p.Key == "" {
		return nil
	}
	if !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.By == ByKey }) {
		return Errorf(Invalid, field, "needs a step with by: key: no other step looks at keys")
	}
	if source, err := ParseKeySource(field, string(p.Key)); err != nil || source != p.Key {
		return Errorf(Invalid, field, "%s is not in the form %s: %s", quote(string(p.Key)), quote(string(source)), wantKeyParts)
	}
	return nil
}

// KeyThreshold returns the threshold of the buckets of so many percent of the keys.
func KeyThreshold(percent int) uint32 {
	return uint32(uint64(percent) << 32 / 100) //nolint:gosec // less than 100 percent
}

// KeySalt returns what the buckets of keys depend on besides the keys: the script and the version, or
// the attempt of the change set, whose scripts all take the same keys. Another version begins with
// other keys, so that it is not always the same users that try what is new.
func (c *Candidate) KeySalt(name Name) string {
	if c.Set != nil {
		return fmt.Sprintf("%s/%s#%d", name.Tenant, c.Set.Name, c.Set.Attempt)
	}
	return fmt.Sprintf("%s@%d", name, c.Version.Number)
}

// KeysOn returns the threshold of the keys whose calls run the candidate on the agent; 0 if no calls
// do because of their keys: the agent runs the candidate for all of them, or for none.
func (c *Candidate) KeysOn(name Name, agent Agent) (threshold uint32) {
	if len(c.Keys) == 0 || c.Selects(name, agent) {
		return 0
	}
	for _, s := range c.Keys {
		if s.Selector.Matches(agent.Labels) {
			threshold = max(threshold, s.Threshold)
		}
	}
	return threshold
}

// KeysOn returns Candidate.KeysOn of the release's candidate; 0 if there is none, or if there is
// no other version for the other keys.
func (r *Release) KeysOn(agent Agent) uint32 {
	if r.Candidate == nil || r.Untried() {
		return 0
	}
	return r.Candidate.KeysOn(r.Name, agent)
}
