package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCurrent: the pages have what the definitions say.
func TestCurrent(t *testing.T) {
	t.Chdir("../../..")
	pages, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	generated := 0
	for path, want := range pages {
		have, err := os.ReadFile(path) //nolint:gosec // a page of the tree
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, string(have)); d != "" {
			t.Errorf("%s is not current: run make generate\n%s", path, d)
		}
		generated += len(part.FindAllString(want, -1))
	}
	if generated < 20 {
		t.Errorf("found %d generated parts: does the pattern still match?", generated)
	}
}
