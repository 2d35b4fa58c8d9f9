package lua_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

// page returns docs/lua.md.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/lua.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// shownRow is a row of the page: an expression, what it is in Lua 5.1, and here.
var shownRow = regexp.MustCompile("(?m)^\\| `(.+)` \\| `(.*)` \\| `(.*)` \\|$")

// TestDocumentedDifferences: the tables of docs/lua.md are true.
func TestDocumentedDifferences(t *testing.T) {
	var bodies, there, here []string
	for _, m := range shownRow.FindAllStringSubmatch(page(t), -1) {
		bodies, there, here = append(bodies, "return "+m[1]), append(there, m[2]), append(here, m[3])
	}
	if len(bodies) < 20 {
		t.Fatalf("found %d rows: does the pattern still match?", len(bodies))
	}
	d := &differ{driver: diffDriver}
	for i, got := range d.outcomes(t, bodies) {
		if got != here[i] {
			t.Errorf("%s is %s here, the page says %s", bodies[i], got, here[i])
		}
	}
	needs.Command(t, "lua5.1", "lua5.1")
	for i, got := range d.reference(t, bodies) {
		if got != there[i] {
			t.Errorf("%s is %s in Lua 5.1, the page says %s", bodies[i], got, there[i])
		}
	}
}

// TestDeclaredRulesAreDocumented: what the differential tests let pass is on the page.
func TestDeclaredRulesAreDocumented(t *testing.T) {
	text := strings.Join(strings.Fields(page(t)), " ")
	for _, r := range rules {
		if !strings.Contains(text, r.declared) {
			t.Errorf("docs/lua.md does not have %q", r.declared)
		}
	}
}

// TestDiffInventory: each function of Lua 5.1 is here, or on the page among those
// that are not.
func TestDiffInventory(t *testing.T) {
	d := newDiffer(t)
	const list = `local names = {} for name, v in pairs(_G) do if type(v) == "table" and name ~= "_G" and name ~= "package" and name ~= "arg" and name ~= "io"
		and name ~= "debug" and name ~= "os" then for inner in pairs(v) do names[#names + 1] = name .. "." .. inner end else
		names[#names + 1] = name end end table.sort(names) return table.concat(names, " ")`
	names := strings.Fields(strings.Trim(d.reference(t, []string{list})[0], `"`))
	if len(names) < 80 {
		t.Fatalf("lua5.1 has %d names", len(names))
	}
	_, rest, _ := strings.Cut(page(t), "## What is not there")
	missing, _, _ := strings.Cut(rest, "## What is there besides")
	names = slices.DeleteFunc(names, func(name string) bool { return name == "arg" }) // of the command
	var bodies []string
	for _, name := range names {
		bodies = append(bodies, "return "+name+" ~= nil")
	}
	here := d.outcomes(t, bodies)
	for i, name := range names {
		if here[i] != "true" && !strings.Contains(missing, "`"+name+"`") {
			t.Errorf("%s is missing, and docs/lua.md does not say so", name)
		}
	}
}
