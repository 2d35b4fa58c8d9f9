package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestInOrder: what others come after is published first, and nothing else moves.
func TestInOrder(t *testing.T) {
	for given, want := range map[string]string{
		"a b c":                   "a b c",
		"a:c b c":                 "c a b",
		"a:b b:c c":               "c b a",
		"a:gone b":                "a b",
		"a:b b:a c":               "b a c",
		"d a:b,c b:d c:d,other e": "d b c a e",
	} {
		var list []manifest.Manifest
		for text := range strings.FieldsSeq(given) {
			name, after, _ := strings.Cut(text, ":")
			m := manifest.Manifest{Name: script.Name{Tenant: "acme", Script: name}}
			for other := range strings.SplitSeq(after, ",") {
				m.Settings.Rollout.After = append(m.Settings.Rollout.After, script.Name{Tenant: "acme", Script: other})
			}
			list = append(list, m)
		}
		var got []string
		for _, m := range manifest.InOrder(list) {
			got = append(got, m.Name.Script)
		}
		if fmt.Sprint(got) != fmt.Sprint(strings.Fields(want)) {
			t.Errorf("%s: %v, want %s", given, got, want)
		}
	}
}
