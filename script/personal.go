package script

import (
	"strings"
	"time"
	"unicode/utf8"
)

// Personal makes a script the personal version of another one of its tenant: calls of that one with the key run
// this script in its place. All other calls run what they ran before.
type Personal struct {
	Of   string // the other script
	Key  string
	From KeySource // where the key of a request comes from; "" if calls name their keys
	// Until is when the personal version expires. Agents ignore it then, and the registry deletes it.
	Until time.Time
}

// Bounds of personal versions.
const (
	MaxPersonal    = 32 // of one script
	MinPersonalKey = 8  // bytes: a key that nobody guesses by chance
	// MaxPersonalTime is how long a personal version lasts after it is published.
	MaxPersonalTime = 7 * 24 * time.Hour
)

// personalMark stands in the name of a personal version between the name of the script and that of its author.
const personalMark = "-dev-"

// PersonalName returns the name of the personal version of the script that belongs to who.
func PersonalName(of Name, who string) Name {
	return Name{Tenant: of.Tenant, Script: of.Script + personalMark + who}
}

// PersonalPrefix is how the names of all personal versions of the script begin.
func PersonalPrefix(of Name) Name { return Name{Tenant: of.Tenant, Script: of.Script + personalMark} }

// Target returns the script that p is a personal version of, which has the name.
func (p *Personal) Target(name Name) Name { return Name{Tenant: name.Tenant, Script: p.Of} }

// Equal reports whether both say the same.
func (p *Personal) Equal(q *Personal) bool {
	if p == nil || q == nil {
		return p == q
	}
	return p.Of == q.Of && p.Key == q.Key && p.From == q.From && p.Until.Equal(q.Until)
}

// Expired reports whether the time is over.
func (p *Personal) Expired(now time.Time) bool { return !now.Before(p.Until) }

// Validate returns an Invalid error unless a script with the name and the rest of the spec can be the personal
// version, as of now. prefix is how the fields of the spec are called.
func (p *Personal) Validate(prefix string, name Name, s Spec, now time.Time) error {
	if p == nil {
		return nil
	}
	field := prefix + ".personal"
	if err := ValidateLabel(field+".of", p.Of); err != nil {
		return err
	}
	who, ok := strings.CutPrefix(name.Script, p.Of+personalMark)
	switch {
	case !ok || who == "":
		return Errorf(Invalid, "name", "%s does not begin with %q: the name of a personal version does", name, p.Of+personalMark)
	case len(p.Key) < MinPersonalKey || len(p.Key) > MaxKeyBytes || !utf8.ValidString(p.Key):
		return Errorf(Invalid, field+".key", "has %d bytes, want %d to %d of UTF-8: everybody with the key gets the personal version", len(p.Key), MinPersonalKey, MaxKeyBytes)
	case p.Expired(now):
		return Errorf(Invalid, field+".until", "%s is over", p.Until.UTC().Format(time.RFC3339))
	case p.Until.After(now.Add(MaxPersonalTime)):
		return Errorf(Invalid, field+".until", "%s is more than %v from now", p.Until.UTC().Format(time.RFC3339), MaxPersonalTime)
	case s.Library:
		return Errorf(Invalid, prefix+".library", "a library has no personal version, because nobody calls it: publish a personal version of a script that requires it")
	case !s.Trigger.Equal(Trigger{}):
		return Errorf(Invalid, prefix+".trigger", "a personal version has none: it runs where %s runs", p.Of)
	}
	if p.From != "" {
		source, err := ParseKeySource(field+".from", string(p.From))
		if err != nil {
			return err
		}
		if source != p.From {
			return Errorf(Invalid, field+".from", "%s is not in the form %s", quote(string(p.From)), quote(string(source)))
		}
	}
	return nil
}
