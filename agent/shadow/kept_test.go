package shadow_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/shadow"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestKept: of many candidates, samples and counters are kept of those that were used last.
func TestKept(t *testing.T) {
	var kept shadow.Kept
	all := make([]*shadow.Counts, shadow.MaxKept+1)
	use := func(i int) float64 {
		kept.Use(all[i])
		n, err := all[i].State.Count("n", 1)
		if err != nil {
			t.Fatal(err)
		}
		all[i].Differ(script.ShadowSample{Paths: []string{"/a"}})
		return n
	}
	for i := range all {
		all[i] = &shadow.Counts{Step: 1}
	}
	for i := range shadow.MaxKept {
		use(i)
	}
	use(0)
	use(shadow.MaxKept)
	for i, want := range []int{2, 0, 1} {
		if found := all[i].Findings(); len(found.Samples) != want || found.Paths["/a"] == 0 {
			t.Errorf("candidate %d: %d samples, want %d; %v", i, len(found.Samples), want, found.Paths)
		}
	}
	if n := use(1); n != 1 {
		t.Errorf("its counter goes on with %v", n)
	}
}
