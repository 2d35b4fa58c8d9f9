package manifest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/script"
)

const setHead = "apiVersion: scriptorium.dev/v1alpha1\nkind: ChangeSet\nmetadata: {name: cart-2}\nspec:\n  tenantId: acme\n"

// setDir returns a folder with manifests and contents for change sets.
func setDir(t *testing.T) string {
	t.Helper()
	outside := t.TempDir()
	dir := filepath.Join(outside, "sets")
	if err := os.MkdirAll(filepath.Join(dir, "scripts"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, outside, "secret.yaml", doc("secret", "source: return 1"))
	write(t, dir, "route.yaml", doc("route", "source: return 1"))
	write(t, filepath.Join(dir, "scripts"), "cart.yaml", doc("cart", "sourceFile: cart.lua")+"---\n"+doc("cart-next", "source: return 2"))
	write(t, filepath.Join(dir, "scripts"), "cart.lua", "return 'cart'")
	write(t, dir, "prices.json", `{"tea": 3}`)
	write(t, dir, "ten.yaml", doc("ten", "source: return 1, rollout: {steps: [{percent: 10}]}"))
	write(t, dir, "twenty.yaml", doc("twenty", "source: return 1, rollout: {steps: [{percent: 20}]}"))
	write(t, dir, "pinned.yaml", doc("pinned", "source: return 1, version: 3"))
	write(t, dir, "shop.yaml", strings.Replace(doc("price", "source: return 1"), "acme", "shop", 1))
	write(t, dir, "again.yaml", doc("route", "source: return 2"))
	write(t, dir, "wrong.yaml", doc("wrong", "source: return 1, enabled: maybe"))
	write(t, dir, "empty.yaml", "# nothing\n")
	write(t, dir, "large", strings.Repeat("x", 600<<10))
	if err := os.Symlink("../secret.yaml", filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestChangeSet(t *testing.T) {
	dir := setDir(t)
	text := setHead + `  scripts: [route.yaml, scripts/cart.yaml]
  values:
    prices/cart: {file: prices.json}
    flags: {text: "on"}
    limits: {json: {max: 10}}
  rollout: {steps: [{percent: 10, pause: 10m}]}
`
	write(t, dir, "set.yaml", text)
	got, err := manifest.LoadChangeSet(filepath.Join(dir, "set.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p := got.Publish()
	var names []string
	for _, s := range p.Scripts {
		names = append(names, s.Name.String()+" "+string(s.Source))
	}
	for _, v := range p.Values {
		names = append(names, v.Key+" "+string(v.Content))
	}
	want := []string{"acme/route return 1", "acme/cart return 'cart'", "acme/cart-next return 2", `prices/cart {"tea": 3}`, "flags on", `limits {"max":10}`}
	if d := cmp.Diff(want, names); d != "" || p.Tenant != "acme" || p.Name != "cart-2" || len(p.Plan.Steps) != 1 {
		t.Errorf("%s\n%+v", d, p)
	}
	// Where errors of the registry are.
	for at, err := range map[string]error{
		"set.yaml:11:31: spec.rollout.steps[0].percent: 10 is wrong":        script.Errorf(script.Invalid, "plan.steps[0].percent", "10 is wrong"),
		"scripts/cart.lua:1:2: unexpected symbol":                           &script.Error{Kind: script.Script, Field: "source", Message: "acme/cart: unexpected symbol", Line: 1, Column: 2},
		"scripts/cart.yaml:4:36: spec.sourceFile: acme/cart is wrong there": script.Errorf(script.Invalid, "source", "acme/cart: acme/cart is wrong there"),
	} {
		if got := strings.TrimPrefix(got.Locate(err).Error(), dir+"/"); got != at {
			t.Errorf("located %s, want %s", got, at)
		}
	}
}

func TestChangeSetFaults(t *testing.T) {
	dir := setDir(t)
	for spec, want := range map[string]string{
		"scripts: [../secret.yaml]":                                      `set.yaml:6:13: spec.scripts[0]: "../secret.yaml" is not inside the manifest's folder`,
		"scripts: [link.yaml]":                                           "set.yaml:6:13: spec.scripts[0]: cannot be read: path escapes from parent: link.yaml",
		"scripts: [none.yaml]":                                           "set.yaml:6:13: spec.scripts[0]: cannot be read: no such file or directory: none.yaml",
		"scripts: [scripts]":                                             "set.yaml:6:13: spec.scripts[0]: cannot be read: is not a regular file: scripts",
		"scripts: [route.yaml, route.yaml]":                              "set.yaml:6:25: spec.scripts[1]: route.yaml is there twice",
		"scripts: [route.yaml, again.yaml]":                              "again.yaml:1:1: metadata.name: acme/route already has a manifest",
		"scripts: [empty.yaml]":                                          "set.yaml:6:13: spec.scripts[0]: empty.yaml holds no manifests",
		"scripts: [set.yaml]":                                            "set.yaml:2:7: kind: is ChangeSet: publish it by itself, with scriptctl changeset publish ",
		"scripts: [shop.yaml]":                                           "shop.yaml:4:18: spec.tenantId: shop is not acme, the tenant of the change set: a transaction is for one tenant",
		"scripts: [pinned.yaml]":                                         "pinned.yaml:4:51: spec.version: pins acme/pinned to version 3: leave it out",
		"scripts: [ten.yaml, twenty.yaml]":                               "twenty.yaml:4:51: spec.rollout: differs from the plan of acme/ten (DIR/ten.yaml:4)",
		"scripts: [wrong.yaml]":                                          `wrong.yaml:4:51: spec.enabled: is the text "maybe"`,
		"scripts: [" + strings.Repeat("a, ", 11) + "]":                   "set.yaml:6:12: spec.scripts: 11 are too many: a change set has at most 10 scripts",
		"scripts: route.yaml":                                            `set.yaml:6:12: spec.scripts: is the text "route.yaml", want a list`,
		"values: {a: {file: ../secret.yaml}}":                            `set.yaml:6:22: spec.values.a.file: "../secret.yaml" is not inside the manifest's folder`,
		"values: {a: {file: none}}":                                      "set.yaml:6:22: spec.values.a.file: cannot be read: no such file or directory: none",
		"values: {a: {file: large}, b: {file: large}}":                   "set.yaml:5:3: spec: has scripts and values of 1228800 bytes together: a change set has at most 1048576 (1 MiB)",
		"values: {a: {text: x}, a: {text: y}}":                           "set.yaml:6:26: spec.values.a: is there twice",
		"values: {a: {text: 5}}":                                         "set.yaml:6:22: spec.values.a.text: is the number 5, want text: put it in quotes",
		"values: {a: {text: x, json: 1}}":                                "set.yaml:6:15: spec.values.a: has 2 contents: want one of file",
		"values: {a: {}}":                                                "set.yaml:6:15: spec.values.a: has 0 contents",
		"values: {a: x}":                                                 "set.yaml:6:15: spec.values.a: is the text \"x\", want fields: file, text, json",
		"values: {../a: {text: x}}":                                      "set.yaml:6:12: spec.values: \"../a\" is not a key",
		"values: [a]":                                                    "set.yaml:6:11: spec.values: is a list, want contents by their keys",
		"values: {a: {text: x}}\n  rollout: {steps: [{percent: 10}]}":    "set.yaml:7:12: spec.rollout: needs a script",
		"scripts: [route.yaml]\n  rollout: {after: [acme/route]}":        "set.yaml:7:21: spec.rollout.after[0]: ",
		"scripts: [route.yaml]\n  rollout: {steps: [{percent: 100}]}":    "set.yaml:7:31: spec.rollout.steps[0].percent: 100 is not between 1 and 99",
		"rollouts: {}":                                                   "set.yaml:6:3: spec.rollouts: is not a field",
		"scripts: []\n---\napiVersion: v1\n":                             "set.yaml:8:1: holds another document",
		"values: {" + strings.Repeat("a: {text: x}, ", 21) + "}":         "set.yaml:6:11: spec.values: 21 are too many",
		"scripts: [route.yaml]\n  values: {a: {json: {a: 1, a: 2}}}":     "set.yaml:7:29: spec.values.a.json.a: is there twice",
		"scripts: [scripts/cart.yaml]\n  values: {a: {file: ../prices}}": "is not inside",
	} {
		write(t, dir, "set.yaml", setHead+"  "+spec+"\n")
		_, err := manifest.LoadChangeSet(filepath.Join(dir, "set.yaml"))
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), dir, "DIR"), want) {
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
	}
	for text, want := range map[string]string{
		doc("route", "source: return 1"):                "set.yaml:2:7: kind: is LuaScript, want ChangeSet",
		strings.Replace(setHead, "ChangeSet", "Set", 1): `set.yaml:2:7: kind: is "Set", want ChangeSet`,
		strings.Replace(setHead, "cart-2", "Cart_2", 1): `set.yaml:3:18: metadata.name: "Cart_2" is not a DNS label`,
		"":  "set.yaml: holds no document: want one ChangeSet",
		"[": "is not YAML",
		strings.Replace(setHead, "  tenantId: acme\n", "", 1):    "set.yaml:1:1: spec: is missing",
		strings.Replace(setHead, "tenantId", "tenant", 1):        "set.yaml:5:3: spec.tenantId: is missing",
		strings.Replace(setHead, "kind: ChangeSet\n", "", 1):     "set.yaml:1:1: kind: is missing: add ChangeSet",
		strings.Replace(setHead, "/v1alpha1", "/v1", 1) + "\x00": "there is a NUL byte",
	} {
		write(t, dir, "set.yaml", text)
		if _, err := manifest.LoadChangeSet(filepath.Join(dir, "set.yaml")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := manifest.LoadChangeSet(filepath.Join(dir, "no.yaml")); err == nil || !strings.HasSuffix(err.Error(), "no.yaml: cannot be read: no such file or directory") {
		t.Error(err)
	}
}

// TestAddToChangeSet: comments and layout stay.
func TestAddToChangeSet(t *testing.T) {
	dir := setDir(t)
	values := []manifest.NewValue{{Key: "flags", Text: `say "on"`}, {Key: "007", File: "prices.json"}}
	add := func(name, text string) string {
		got, _, err := manifest.AddToChangeSet(name, []byte(text), dir, []string{"route.yaml", "scripts/cart.yaml"}, values)
		if err != nil {
			return err.Error()
		}
		return string(got)
	}
	const newScripts, newValues = "- route.yaml\nINDENT- scripts/cart.yaml\n", "flags: {text: \"say \\\"on\\\"\"}\nINDENT\"007\": {file: prices.json}\n"
	lines := func(indent int, text string) string {
		spaces := strings.Repeat(" ", indent)
		return spaces + strings.ReplaceAll(text, "INDENT", spaces)
	}
	for before, want := range map[string]string{
		// As it is created.
		setHead + "  # which scripts\n  scripts: []   # of here\n\n  # which values\n  values: {}\n  # rollout:\n  #   steps: []\n": setHead +
			"  # which scripts\n  scripts:   # of here\n" + lines(4, newScripts) + "\n  # which values\n  values:\n" + lines(4, newValues) + "  # rollout:\n  #   steps: []\n",
		// Blocks, in either indentation, with comments and values of many lines.
		setHead + "  scripts:\n  # the first\n  - ten.yaml # ten\n\n  values:\n      a: {text: x}\n      b:\n        json:\n          # why\n          max: 10\n\n  rollout: {steps: [{percent: 5}]}\n": setHead +
			"  scripts:\n  # the first\n  - ten.yaml # ten\n" + lines(2, newScripts) + "\n  values:\n      a: {text: x}\n      b:\n        json:\n          # why\n          max: 10\n" +
			lines(6, newValues) + "\n  rollout: {steps: [{percent: 5}]}\n",
		setHead + "  values:\n    a:\n      text: |\n        x\n\n        y\n\n  scripts:\n    - ten.yaml\n": setHead + "  values:\n    a:\n      text: |\n        x\n\n        y\n" +
			lines(4, newValues) + "\n  scripts:\n    - ten.yaml\n" + lines(4, newScripts),
		// Neither is there.
		setHead:                               strings.Replace(setHead, "  tenantId", "  values:\n"+lines(4, newValues)+"  scripts:\n"+lines(4, newScripts)+"  tenantId", 1),
		setHead + "  scripts:\n  values: ~\n": "",
		setHead + "  scripts: # yet\n":        "",
		// In flow.
		setHead + "  scripts: [ten.yaml]\n  values: {a: {text: x}}\n": setHead +
			"  scripts: [route.yaml, scripts/cart.yaml, ten.yaml]\n  values: {flags: {text: \"say \\\"on\\\"\"}, \"007\": {file: prices.json}, a: {text: x}}\n",
		strings.Replace(setHead, "spec:\n  tenantId: acme\n", "spec: {tenantId: acme, values: {}}\n", 1): strings.Replace(setHead, "spec:\n  tenantId: acme\n",
			`spec: {"scripts": [route.yaml, scripts/cart.yaml], tenantId: acme, values: {flags: {text: "say \"on\""}, "007": {file: prices.json}}}`+"\n", 1),
	} {
		got := add("set.yaml", before)
		switch {
		case want == "" && !strings.Contains(got, "route.yaml") && !strings.Contains(got, "add by hand"):
			t.Errorf("to\n%s\n%s", before, got)
		case want != "" && got != want:
			t.Errorf("to\n%s\n%s", before, cmp.Diff(want, got))
		}
	}
	const object = `{"apiVersion":"scriptorium.dev/v1alpha1","kind":"ChangeSet","metadata":{"name":"a"},"spec":{"tenantId":"acme","scripts":[],"values":{}}}`
	if got, want := add("set.json", object), strings.NewReplacer(`[]`, `["route.yaml", "scripts/cart.yaml"]`, `"values":{}`, `"values":{"flags": {"text": "say \"on\""}, "007": {"file": "prices.json"}}`).Replace(object); got != want {
		t.Errorf("to JSON: %s", got)
	}
}

func TestAddToChangeSetFaults(t *testing.T) {
	dir := setDir(t)
	text := setHead + "  scripts: [route.yaml]\n  values: {a: {text: x}}\n"
	for want, add := range map[string]struct {
		paths  []string
		values []manifest.NewValue
	}{
		"route.yaml is there already":          {paths: []string{"route.yaml"}},
		"ten.yaml is there already":            {paths: []string{"ten.yaml", "ten.yaml"}},
		"acme/route already has a manifest":    {paths: []string{"again.yaml"}},
		"shop is not acme":                     {paths: []string{"shop.yaml"}},
		"differs from the plan":                {paths: []string{"ten.yaml", "twenty.yaml"}},
		"a is there already":                   {values: []manifest.NewValue{{Key: "a", Text: "y"}}},
		"b is there already":                   {values: []manifest.NewValue{{Key: "b", Text: "y"}, {Key: "b", Text: "z"}}},
		"is not a key":                         {values: []manifest.NewValue{{Key: "b c", Text: "y"}}},
		"no such file or directory: none.json": {values: []manifest.NewValue{{Key: "b", File: "none.json"}}},
		"23 are too many":                      {values: many(22)},
	} {
		if got, _, err := manifest.AddToChangeSet("set.yaml", []byte(text), dir, add.paths, add.values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %s", want, err, got)
		}
	}
}

func many(n int) (values []manifest.NewValue) {
	for i := range n {
		values = append(values, manifest.NewValue{Key: fmt.Sprint("k", i)})
	}
	return values
}

func TestLoadRollout(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "plan.yaml", "steps: [{percent: 10, pause: 1m}]\nmaxErrorPercent: 5\n")
	plan, err := manifest.LoadRollout(filepath.Join(dir, "plan.yaml"))
	if err != nil || len(plan.Steps) != 1 || *plan.MaxErrorPercent != 5 {
		t.Errorf("%+v, %v", plan, err)
	}
	for text, want := range map[string]string{"steps: [{percent: 0}]": "plan.yaml:1:19: rollout.steps[0].percent: 0 is not", "rollout: {}": "plan.yaml:1:1: rollout.rollout: is not a field", "": "holds no document"} {
		write(t, dir, "plan.yaml", text)
		if _, err := manifest.LoadRollout(filepath.Join(dir, "plan.yaml")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// FuzzAddToChangeSet: whatever is added to, what comes of it can be read, and has what was added.
func FuzzAddToChangeSet(f *testing.F) {
	for _, spec := range []string{
		"  scripts: []\n  values: {}\n", "  scripts:\n  - a\n", "  values:\n    a:\n      text: |\n        x\n", "  scripts: # none\n", "  values: {a: {text: x}}", "  scripts: &a []\n  values: ~\n",
	} {
		f.Add(setHead+spec, "flags", "on")
	}
	f.Fuzz(func(t *testing.T, text, key, content string) {
		_, before := manifest.ParseChangeSet("set.yaml", []byte(text), t.TempDir())
		added, _, err := manifest.AddToChangeSet("set.yaml", []byte(text), t.TempDir(), nil, []manifest.NewValue{{Key: key, Text: content}})
		if err != nil {
			return
		}
		after, err := manifest.ParseChangeSet("set.yaml", added, t.TempDir())
		if before != nil || err != nil || after.Values == nil {
			t.Errorf("to %q: %v\n%q", text, err, added)
		}
	})
}
