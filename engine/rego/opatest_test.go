package rego_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine/rego"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestRunTests(t *testing.T) {
	policy := "package acme\n\ndefault allow := false\n\nallow if input.user in data.values.users\n"
	tests := `package acme_test

import data.acme

test_user if acme.allow with input as {"user": "ann"} with data.values as {"users": ["ann"]}

test_guest if {
	print("about a guest")
	acme.allow with input as {"user": "guest"} with data.values as {"users": ["ann"]}
}

test_endless if count([1 | some a in numbers.range(1, 50000); some b in numbers.range(1, 50000); a == b + 100000]) == 0

test_false := false

todo_test_later := false

test_cases[name] := passed if {
	some name, user in {"good": "ann", "bad": "bob"}
	passed := user == "ann"
}
`
	results, err := rego.RunTests(t.Context(), source(policy, ""), map[string][]byte{"acme_test.rego": []byte(tests)}, script.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		name            string
		passed, skipped bool
		kind            script.Kind
		line            int
	}{
		{"test_user", true, false, "", 5},
		{"test_guest", false, false, "", 7},
		{"test_endless", false, false, script.Limit, 12},
		{"test_false", false, false, "", 14},
		{"todo_test_later", false, true, "", 16},
		{"test_cases", false, false, "", 18},
	}
	if len(results) != len(want) {
		t.Fatalf("%d results: %+v", len(results), results)
	}
	for i, w := range want {
		r := results[i]
		if r.Name != w.name || r.Passed != w.passed || r.Skipped != w.skipped || r.Line != w.line || r.Package != "acme_test" {
			t.Errorf("got %+v, want %+v", r, w)
		}
		if kind := script.KindOf(r.Err); kind != w.kind && (w.kind != script.Limit || kind != script.Timeout) {
			t.Errorf("%s: %v, want an error of kind %s", r.Name, r.Err, w.kind)
		}
	}
	if out := results[1].Output; len(out) != 1 || out[0] != "about a guest" {
		t.Errorf("output = %q", out)
	}
	if cases := results[5].Cases; len(cases) != 1 || cases[0] != `"bad"` {
		t.Errorf("cases = %q", cases)
	}
}
