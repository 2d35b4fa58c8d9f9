package decisionlog

import (
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Target is a value of --decision-log: KIND, or KIND:WHERE?OPTION=VALUE&….
type Target struct {
	Kind  string // such as "file"
	Where string // the text after the colon, without options

	text    string
	options url.Values
	used    []string
	err     error
}

// Opener makes the sink of a target. It reads the options with the methods of the target, and then checks Err.
type Opener func(t *Target, env Env) (Sink, error)

// Env is the environment of a sink.
type Env struct {
	Agent string // its name
	Log   *slog.Logger
}

// Openers are the kinds of sinks by their names.
type Openers map[string]Opener

// ParseTarget parses a target. Errors are Invalid.
func ParseTarget(text string) (*Target, error) {
	t := &Target{text: text}
	where, options, _ := strings.Cut(text, "?")
	t.Kind, t.Where, _ = strings.Cut(where, ":")
	var err error
	if t.options, err = url.ParseQuery(options); err != nil {
		return nil, script.Errorf(script.Invalid, "", "%.200q: what is behind the ? is no list of options, as in max-size=100MiB&keep=5: %w", text, err)
	}
	return t, nil
}

// String returns the target as it was written.
func (t *Target) String() string { return t.text }

// Open makes the sink of the target.
func (all Openers) Open(t *Target, env Env) (Sink, error) {
	open := all[t.Kind]
	if open == nil {
		kinds := make([]string, 0, len(all))
		for kind := range all {
			kinds = append(kinds, kind)
		}
		slices.Sort(kinds)
		return nil, script.Errorf(script.Invalid, "", "%.200q begins with no kind of sink: want %s", t.text, strings.Join(kinds, ", "))
	}
	sink, err := open(t, env)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "", "%.200q: %w", t.text, err)
	}
	return sink, nil
}

// Text returns the option with the name; absent if there is none.
func (t *Target) Text(name, absent string) string {
	t.used = append(t.used, name)
	values := t.options[name]
	switch len(values) {
	case 0:
		return absent
	case 1:
		return values[0]
	}
	t.fault("the option %s is there twice: remove one", name)
	return absent
}

// Number returns the option as a number from least to most; absent if there is none.
func (t *Target) Number(name string, absent, least, most int64) int64 {
	text := t.Text(name, "")
	if text == "" {
		return absent
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		t.fault("the option %s is %.80q, want a number from %d to %d", name, text, least, most)
	}
	return n
}

// Bool returns the option as true or false; false if there is none.
func (t *Target) Bool(name string) bool {
	text := t.Text(name, "false")
	if text != "true" && text != "false" {
		t.fault("the option %s is %.80q, want true or false", name, text)
	}
	return text == "true"
}

// units of sizes, in the order in which they are tried.
var units = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"", 1},
}

// Size returns the option as a size with a unit, such as 100MiB, of at least least; absent if there is none.
func (t *Target) Size(name string, absent, least int64) int64 {
	text := t.Text(name, "")
	if text == "" {
		return absent
	}
	for _, unit := range units {
		number, ok := strings.CutSuffix(text, unit.name)
		n, err := strconv.ParseInt(number, 10, 64)
		if !ok || err != nil || n < 0 || n > (1<<62)/unit.bytes {
			continue
		}
		if n *= unit.bytes; n < least {
			t.fault("the option %s is %s, want at least %d bytes", name, text, least)
		}
		return n
	}
	t.fault("the option %s is %.80q, want a size such as 100MiB", name, text)
	return absent
}

func (t *Target) fault(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf(format, args...)
	}
}

// Err returns the first error of an option. An option that was not read is unknown, and an error, too.
func (t *Target) Err() error {
	if t.err != nil {
		return t.err
	}
	names := make([]string, 0, len(t.options))
	for name := range t.options {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if slices.Contains(t.used, name) {
			continue
		}
		if len(t.used) == 0 {
			return fmt.Errorf("the option %.80q is unknown: a %s has none", name, t.Kind)
		}
		return fmt.Errorf("the option %.80q is unknown: a %s has %s", name, t.Kind, strings.Join(t.used, ", "))
	}
	return nil
}
