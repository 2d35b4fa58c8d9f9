package script

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Gate is a system outside of Scriptorium that is asked before a step of a Plan passes; the zero
// Gate is none. Gates can be compared.
type Gate struct {
	Kind GateKind
	// Source is the name that the operator of the registry gave to the system. Where it is, and by
	// what the registry is believed there, is not for publishers to say.
	Source string
	// Query, of a Prometheus, is in PromQL, with GateVariables. Its one value must be within Min
	// and Max.
	Query    string `json:",omitempty"`
	Min, Max Bound  `json:",omitzero"`
}

// GateKind is what a Gate is asked by.
type GateKind string

// The kinds of gates.
const (
	Prometheus GateKind = "prometheus" // a query over its HTTP API
	Webhook    GateKind = "webhook"    // a POST request
)

// Bound is a number that a value may reach; the zero Bound is none.
type Bound struct {
	Set   bool
	Value float64
}

// IsZero reports whether there is no bound.
func (b Bound) IsZero() bool { return b == Bound{} }

// MaxQueryBytes is the length of the longest Gate.Query.
const MaxQueryBytes = 2048

// IsZero reports whether there is no gate.
func (g Gate) IsZero() bool { return g == Gate{} }

// String is "prometheus/main".
func (g Gate) String() string { return string(g.Kind) + "/" + g.Source }

// Bounds says in words what the value is to be: "at most 0.01".
func (g Gate) Bounds() string {
	var said []string
	if g.Min.Set {
		said = append(said, fmt.Sprintf("at least %v", g.Min.Value))
	}
	if g.Max.Set {
		said = append(said, fmt.Sprintf("at most %v", g.Max.Value))
	}
	return strings.Join(said, " and ")
}

// Within reports whether the value is a number within the bounds.
func (g Gate) Within(value float64) bool {
	return !math.IsNaN(value) && !math.IsInf(value, 0) && (!g.Min.Set || value >= g.Min.Value) && (!g.Max.Set || value <= g.Max.Value)
}

func (g Gate) validate(field string) error {
	at := field + "." + string(g.Kind)
	switch {
	case g.IsZero():
		return nil
	case g.Kind != Prometheus && g.Kind != Webhook:
		return Errorf(Invalid, field, "is of the kind %s, want %s or %s", quote(string(g.Kind)), Prometheus, Webhook)
	case !isLabel(g.Source):
		return Errorf(Invalid, at, "%s is no source of gates: want the name of one that the registry has: 1 to %d of a-z, 0-9 and '-'", quote(g.Source), MaxLabelLen)
	case g.Kind == Webhook && g.Query != "":
		return Errorf(Invalid, field+".query", "is for %s: a webhook gets no query", Prometheus)
	case g.Kind == Webhook && (g.Min.Set || g.Max.Set):
		return Errorf(Invalid, field+".max", "is for %s, like min: a webhook answers whether the step passes", Prometheus)
	case g.Kind == Webhook:
		return nil
	case !g.Min.Set && !g.Max.Set:
		return Errorf(Invalid, field+".max", "is missing: say what the value of the query may be at most (max), or must be at least (min)")
	}
	for i, bound := range []Bound{g.Min, g.Max} {
		if math.IsNaN(bound.Value) || math.IsInf(bound.Value, 0) {
			return Errorf(Invalid, field+[]string{".min", ".max"}[i], "%v is not a number", bound.Value)
		}
	}
	if g.Min.Set && g.Max.Set && g.Min.Value > g.Max.Value {
		return Errorf(Invalid, field+".min", "%v is more than max, %v: no value would pass", g.Min.Value, g.Max.Value)
	}
	return g.validateQuery(field + ".query")
}

func (g Gate) validateQuery(field string) error {
	switch {
	case strings.TrimSpace(g.Query) == "":
		return Errorf(Invalid, field, "is missing: add the PromQL whose value decides")
	case len(g.Query) > MaxQueryBytes:
		return Errorf(Invalid, field, "has %d bytes, at most %d are allowed: have a recording rule compute it", len(g.Query), MaxQueryBytes)
	case !utf8.ValidString(g.Query):
		return Errorf(Invalid, field, "is not valid UTF-8")
	}
	for _, c := range g.Query {
		if unicode.IsControl(c) && c != '\n' && c != '\t' {
			return Errorf(Invalid, field, "contains the control character %U", c)
		}
	}
	_, err := ExpandQuery(field, g.Query, func(string) string { return "" })
	return err
}

// GateVariables are what stands in a query for what is asked about, each after a '$'.
var GateVariables = []string{"tenant", "script", "version", "active", "step"}

// ExpandQuery returns the query with the value of each of the GateVariables in its place. A '$'
// that no letter follows, such as the end of a regular expression, stays. It is an error that
// names the field if a letter follows which begins no variable, and if a value has a character
// that could end a literal of PromQL.
func ExpandQuery(field, query string, value func(variable string) string) (string, error) {
	before, rest, found := strings.Cut(query, "$")
	var out strings.Builder
	for ; found; before, rest, found = strings.Cut(rest, "$") {
		out.WriteString(before)
		name := rest[:len(rest)-len(strings.TrimLeftFunc(rest, isOfVariable))]
		if name == "" || name[0] >= '0' && name[0] <= '9' {
			out.WriteByte('$')
			continue
		}
		if !isVariable(name) {
			return "", Errorf(Invalid, field, "$%.40s is no variable: there are $%s", name, strings.Join(GateVariables, ", $"))
		}
		text := value(name)
		if strings.ContainsFunc(text, func(c rune) bool { return !isOfVariable(c) && c != '-' }) {
			return "", Errorf(Invalid, field, "$%s stands for %s, which no query may have", name, quote(text))
		}
		out.WriteString(text)
		rest = rest[len(name):]
	}
	out.WriteString(before)
	return out.String(), nil
}

func isVariable(name string) bool {
	for _, v := range GateVariables {
		if v == name {
			return true
		}
	}
	return false
}

func isOfVariable(c rune) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// QueryVariables returns the values of the GateVariables for a candidate in a step.
func QueryVariables(name Name, version, active uint64, step int) func(variable string) string {
	return func(variable string) string {
		switch variable {
		case "tenant":
			return name.Tenant
		case "script":
			return name.Script
		case "version":
			return strconv.FormatUint(version, 10)
		case "active":
			return strconv.FormatUint(active, 10)
		}
		return strconv.Itoa(step)
	}
}
