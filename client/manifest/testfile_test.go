package manifest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/script"
)

const twoScripts = head + "spec: {tenantId: acme, source: x}\n---\n" + "apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\nmetadata: {name: other}\nspec: {tenantId: acme, source: y}\n"

// testFile writes the files of a folder, and returns the path of its test file.
func testFile(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	for file, content := range map[string]string{
		"route.yaml": head + "spec: {tenantId: acme, source: x}\n", "two.yaml": twoScripts, "bad.yaml": "nothing", name: text,
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, name)
}

func TestLoadTests(t *testing.T) {
	f, err := manifest.LoadTests(testFile(t, "route_test.yaml", `
defaults:
  config: {a: 1}
  values: {backend: up, region: eu}
  now: 2026-01-31T12:00:00Z
cases:
- name: all
  args: [1, {b: null}]
  config: {a: 2}
  values: {backend: down}
  seed: 7
  expect: {x: 1}
  exactly: null
  results: [null, {x: [1]}]
  matches: {/x/0: ^a}
- {name: defaults}
- {name: fails, request: [], error: SCRIPT}
- {name: fails there, error: {kind: LIMIT, line: 3, message: many}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if f.Script.Name != (script.Name{Tenant: "acme", Script: "route"}) || len(f.Cases) != 4 {
		t.Fatalf("the file is of %v, with %d cases", f.Script.Name, len(f.Cases))
	}
	all, rest := f.Cases[0], f.Cases[1]
	switch {
	case all.Line != 7 || len(all.Args) != 2 || string(all.Args[1]) != `{"b":null}` || string(all.Config) != `{"a":2}` || all.Seed != 7:
		t.Errorf("the first case is %+v", all)
	case string(all.Values["backend"]) != "down" || string(all.Values["region"]) != "eu" || string(all.Exactly) != "null" || string(all.Results) != `[null,{"x":[1]}]` || !all.Matches["/x/0"].MatchString("ab"):
		t.Errorf("the first case is %+v", all)
	case !rest.Now.Equal(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)) || string(rest.Config) != `{"a":1}` || string(rest.Values["backend"]) != "up" || string(rest.Args[0]) != "{}" || rest.Exactly != nil:
		t.Errorf("the second case is %+v", rest)
	case f.Cases[2].Error != script.Script || string(f.Cases[2].Args[0]) != "[]":
		t.Errorf("the third case is %+v", f.Cases[2])
	}
	if c := f.Cases[3]; c.Error != script.Limit || c.ErrorLine != 3 || !c.ErrorMatches.MatchString("too many") {
		t.Errorf("the fourth case is %+v", c)
	}
	for _, c := range f.Cases {
		for _, value := range append([]json.RawMessage{c.Config}, c.Args...) {
			if !json.Valid(value) {
				t.Errorf("%s: %s is no JSON", c.Name, value)
			}
		}
	}
}

var manyValues = func() (fields string) {
	for i := range 20 {
		fields += fmt.Sprintf(", k%d: *s", i)
	}
	return fields
}()

func TestFaultsOfTestFiles(t *testing.T) {
	const one = "cases: [{name: a}]\n"
	for name, tt := range map[string]struct{ file, text, want string }{
		"nothing":              {"route_test.yaml", "", "is empty: add cases"},
		"no case":              {"route_test.yaml", "cases: []", "cases: has no case"},
		"two documents":        {"route_test.yaml", one + "---\n" + one, "has several documents"},
		"no script":            {"cart_test.yaml", one, "cart.yaml: cannot be read"},
		"a bad script":         {"route_test.yaml", "script: bad.yaml\n" + one, ":1:9: script: the manifest cannot be read"},
		"two scripts":          {"route_test.yaml", "script: two.yaml\n" + one, "has 2 scripts, name one"},
		"another script":       {"route_test.yaml", "script: two.yaml\nname: acme/cart\n" + one, `has no script "acme/cart"`},
		"an unknown field":     {"route_test.yaml", "cases: [{name: a, expects: 1}]", "cases[0].expects: is not a field"},
		"no name":              {"route_test.yaml", "cases: [{}]", "cases[0].name: is missing"},
		"a name twice":         {"route_test.yaml", "cases:\n- {name: a}\n- {name: a}", "the case in line 2 has the same name"},
		"two arguments":        {"route_test.yaml", "cases: [{name: a, request: 1, args: [1]}]", "there is request as well"},
		"an expression":        {"route_test.yaml", "cases: [{name: a, matches: {/a: '('}}]", "is no RE2 expression"},
		"a path":               {"route_test.yaml", "cases: [{name: a, matches: {a.b: x}}]", "is no JSON pointer"},
		"a kind":               {"route_test.yaml", "cases: [{name: a, error: BOOM}]", `"BOOM" is no kind of error`},
		"no kind":              {"route_test.yaml", "cases: [{name: a, error: {line: 1}}]", "cases[0].error.kind: is missing"},
		"both":                 {"route_test.yaml", "cases: [{name: a, error: SCRIPT, expect: 1}]", "a call that fails has no result"},
		"a time":               {"route_test.yaml", "cases: [{name: a, now: noon}]", "want a time such as"},
		"a value":              {"route_test.yaml", "cases: [{name: a, values: {k: 1}}]", "want text: put it in quotes"},
		"a config":             {"route_test.yaml", "cases: [{name: a, config: 1}]", "cases[0].config: is the number 1, want an object"},
		"an empty script":      {"route_test.yaml", `script: ""` + "\n" + one, ":1:9: script: is empty"},
		"an empty name":        {"route_test.yaml", `cases: [{name: ""}]`, "cases[0].name: is empty"},
		"one result":           {"route_test.yaml", "cases: [{name: a, results: {x: 1}}]", "cases[0].results: is an object, want a list"},
		"results of a failure": {"route_test.yaml", "cases: [{name: a, error: SCRIPT, results: []}]", "a call that fails has no result"},
		"results of a gateway": {"route_test.yaml", "cases: [{name: a, gateway: {uri: /}, decision: {allow: true}, results: []}]", "a case with a gateway has no results"},
		// An expectation that nothing is compared with would pass.
		"expect nothing": {"route_test.yaml", "cases: [{name: a, expect: }]", "cases[0].expect: null cannot be expected: write exactly: null"},
		"no results":     {"route_test.yaml", "cases: [{name: a, results: }]", "cases[0].results: is empty"},
		"match nothing":  {"route_test.yaml", "cases: [{name: a, matches: {}}]", "cases[0].matches: is empty"},
		"no expression":  {"route_test.yaml", "cases: [{name: a, matches: {/a: }}]", "cases[0].matches./a: is empty"},
		"no error":       {"route_test.yaml", "cases:\n- name: a\n  error:\n", ":3:3: cases[0].error: is empty"},
		"no message":     {"route_test.yaml", "cases: [{name: a, error: {kind: SCRIPT, message: }}]", "cases[0].error.message: is empty"},
		"no value":       {"route_test.yaml", "defaults: {values: {k: }}\n" + one, "defaults.values.k: is empty"},
		"a bad line":     {"route_test.yaml", "cases:\n- name: a\n  matches:\n    /a: b\n    /b: (\n", ":5:9: cases[0].matches./b: is no RE2"},
		// No agent has such values.
		"a key":            {"route_test.yaml", "cases: [{name: a, values: {a b: x}}]", `"a b" is not a key`},
		"a large value":    {"route_test.yaml", "cases: [{name: a, values: {k: " + strings.Repeat("x", 1<<20+1) + "}}]", "cases[0].values.k: has 1048577 bytes"},
		"many large texts": {"route_test.yaml", "cases: [{name: a, request: [&s " + strings.Repeat("x", 1<<20) + strings.Repeat(", *s", 1000) + "]}]", "with aliases"},
		"a list of values": {"route_test.yaml", "cases: [{name: a, values: [x, y], matches: [x]}]", "cases[0].values: is a list, want fields"},
		"many values":      {"route_test.yaml", "cases: [{name: a, config: {a: &s " + strings.Repeat("x", 1<<20) + "}, values: {k: *s" + manyValues + "}}]", "with aliases"},
	} {
		if _, err := manifest.LoadTests(testFile(t, tt.file, tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v\nwant %s", name, err, tt.want)
		}
	}
}

// TestACaseThatIsAnAlias: all its fields count, also exactly.
func TestACaseThatIsAnAlias(t *testing.T) {
	f, err := manifest.LoadTests(testFile(t, "route_test.yaml", "defaults: {config: {c: &c {name: a, request: null, exactly: null}}}\ncases: [*c]"))
	if err != nil || string(f.Cases[0].Exactly) != "null" || string(f.Cases[0].Args[0]) != "null" {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestFoldersWithTests: a folder's manifests are read without its test files.
func TestFoldersWithTests(t *testing.T) {
	dir := filepath.Dir(testFile(t, "route_test.yaml", "cases: [{name: a}]"))
	for _, file := range []string{"bad.yaml", "two.yaml"} {
		if err := os.Remove(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := manifest.Load(dir); err != nil || len(all) != 1 {
		t.Errorf("there are %d manifests, %v", len(all), err)
	}
}
