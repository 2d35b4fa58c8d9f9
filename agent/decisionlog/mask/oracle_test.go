package mask_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/mask"
)

// oracle makes values of few names, and notes which of their secrets a plain reading of the paths hides.
type oracle struct {
	*rand.Rand
	paths   [][]string
	secrets []string // that are at a path
	made    int
}

var oracleNames = []string{"a", "B", "É", "0", "12", "x.y", "", " a", "query"}

func (o *oracle) name() string { return oracleNames[o.IntN(len(oracleNames))] }

// matches reports whether a path ends on the way to the value. Items of a list have the name "[]": a path has * or a
// number for it, or leaves it out.
func matches(path, way []string) bool {
	if len(path) == 0 {
		return true
	}
	if len(way) == 0 {
		return false
	}
	want, have := strings.TrimSpace(path[0]), strings.TrimSpace(way[0])
	item := way[0] == "[]"
	if item && want != "*" && matches(path, way[1:]) {
		return true
	}
	number := strings.Trim(want, "0123456789") == ""
	if want == "*" || item && number || !item && strings.EqualFold(want, have) {
		if matches(path[1:], way[1:]) {
			return true
		}
	}
	parts := strings.Split(have, ".")
	if item || len(parts) < 2 || len(parts) > len(path) {
		return false
	}
	for i, part := range parts {
		if path[i] != "*" && !strings.EqualFold(path[i], part) {
			return false
		}
	}
	return matches(path[len(parts):], way[1:])
}

func (o *oracle) value(way []string, depth int) string {
	kind := o.IntN(8)
	if depth == 0 {
		kind = 7
	}
	switch {
	case kind < 3:
		var members []string
		for range o.IntN(4) {
			name := o.name()
			text, _ := json.Marshal(name)
			members = append(members, string(text)+":"+o.value(append(way[:len(way):len(way)], name), depth-1))
		}
		return "{" + strings.Join(members, ",") + "}"
	case kind < 5:
		var items []string
		for range o.IntN(4) {
			items = append(items, o.value(append(way[:len(way):len(way)], "[]"), depth-1))
		}
		return "[" + strings.Join(items, ",") + "]"
	case kind == 5 && len(way) > 0: // JSON in a text
		text, _ := json.Marshal(o.value(way, depth-1))
		return string(text)
	}
	o.made++
	secret := fmt.Sprintf("%08d", o.made*7919)
	for _, path := range o.paths {
		if matches(path, way) {
			o.secrets = append(o.secrets, secret)
			break
		}
	}
	if o.IntN(3) == 0 {
		return "1" + secret
	}
	return `"` + secret + `"`
}

// TestOracle: whatever the paths and the names are, what a plain reading of the paths hides is hidden.
func TestOracle(t *testing.T) {
	seed := rand.Uint64()
	o := &oracle{Rand: rand.New(rand.NewPCG(seed, 1))}
	var m mask.Masker
	for range 20_000 {
		o.paths, o.secrets, o.made = nil, nil, 0
		var paths []string
		for range 1 + o.IntN(3) {
			var path []string
			for range 1 + o.IntN(3) {
				names := append([]string{"*", "y", "x"}, oracleNames...)
				if name := names[o.IntN(len(names))]; strings.TrimSpace(name) != "" && name != "x.y" {
					path = append(path, strings.TrimSpace(name))
				}
			}
			if len(path) > 0 {
				o.paths, paths = append(o.paths, path), append(paths, strings.Join(path, "."))
			}
		}
		value := o.value(nil, 5)
		m.Reset(mask.NewPaths(paths))
		out, _, err := m.Append(nil, []byte(value), "/input", nil)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, value, err)
		}
		for _, secret := range o.secrets {
			if strings.Contains(string(out), secret) {
				t.Fatalf("seed %d: %q of %s leave %s in %s", seed, paths, value, secret, out)
			}
			if !m.Leaks("bad " + secret) {
				t.Fatalf("seed %d: %q of %s: a copy of %s is not known", seed, paths, value, secret)
			}
		}
		if len(m.Scrub([]byte(`"x"`), 0, "/result")) == 0 {
			t.Fatal("nothing is left")
		}
	}
}
