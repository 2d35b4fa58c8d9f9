package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scriptorium-dev/scriptorium/internal/schema"
)

// TestCurrent: the schemas are what they are generated from.
func TestCurrent(t *testing.T) {
	t.Chdir("../../..")
	all, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range schema.Names() {
		have, _ := schema.Of(name)
		if d := cmp.Diff(string(all[name]), string(have)); d != "" {
			t.Errorf("internal/schema/%s.json is not current: run make generate\n%s", name, d)
		}
	}
	if len(all) != len(schema.Names()) {
		t.Errorf("%d schemas are generated, and %d have names", len(all), len(schema.Names()))
	}
}
