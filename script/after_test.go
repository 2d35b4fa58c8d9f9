package script_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

func TestAfter(t *testing.T) {
	of := script.Name{Tenant: "acme", Script: "route"}
	many := make([]string, script.MaxAfter+1)
	for i := range many {
		many[i] = fmt.Sprint("acme/s", i)
	}
	for after, want := range map[string]string{
		"":                          "",
		"acme/lib acme/other":       "",
		"acme/lib acme/route":       "p.after[1]: acme/route cannot wait for itself",
		"other/lib":                 "p.after[0]: other/lib is of another tenant: a script waits for scripts of its own tenant, acme",
		"acme/lib acme/lib":         "p.after[1]: acme/lib is there twice",
		"acme/Lib":                  `p.after[0]: "acme/Lib" is not a script's name: want tenant/name`,
		strings.Join(many, " "):     "p.after: 11 scripts are too many: at most 10 are allowed",
		strings.Join(many[1:], " "): "",
	} {
		var p script.Plan
		for text := range strings.FieldsSeq(after) {
			tenant, name, _ := strings.Cut(text, "/")
			p.After = append(p.After, script.Name{Tenant: tenant, Script: name})
		}
		got := ""
		if err := cmp.Or(p.Validate("p"), p.ValidateAfter("p", of)); err != nil {
			got = err.Error()
		}
		if !strings.HasSuffix(got, want) || (got == "") != (want == "") {
			t.Errorf("%q: %s, want %s", after, got, want)
		}
	}
}
