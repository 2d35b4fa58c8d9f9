package worker_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

// TestAProcessReadsWhatIsStaged: calls and tests of a candidate in a tenant's process do, others do
// not, and the next process does, too.
func TestAProcessReadsWhatIsStaged(t *testing.T) {
	w := newWorld(t, onNode1, walled("acme"))
	const reader = `function handle(key) local v = kv.get(key) return v and #v .. v:sub(1, 6), kv.keys() end`
	large := strings.Repeat("staged", script.DefaultLimits().StringBytes/6/2)
	put := func(key, content string) {
		w.revision++
		d := w.keep(content)
		w.commit([]script.Object{{Value: &script.Value{Key: script.ValueKey{Tenant: "acme", Key: key}, Revision: w.revision, Digest: d, Size: len(content)}}})
	}
	put("a", "live")
	put("b", "live")
	stage := func(threshold uint32) func(*script.Release) {
		return func(r *script.Release) {
			set := &script.Membership{Name: "cart-2", Attempt: 4, Scripts: []string{"route"}}
			for _, key := range []string{"a", "c"} {
				set.Values = append(set.Values, script.StagedValue{Key: key, Digest: w.keep(large + key), Size: len(large) + 1})
			}
			r.Candidate.Set, r.Candidate.Threshold = set, threshold
		}
	}
	live, staged := `"4live"`, fmt.Sprintf(`"%dstaged"`, len(large)+1)
	reads := func(when, ref, key, want string) {
		t.Helper()
		if got := w.answer(ref, key); got != want {
			t.Errorf("%s: %s reads %.40s, want %s", when, ref, got, want)
		}
	}
	bucket := script.Bucket("node-1", script.Name{Tenant: "acme", Script: "cart-2"})
	w.candidateOf("lua", stage(bucket), reader, reader+" ")
	reads("before it runs here", "acme/route", `"a"`, live)
	reads("before it runs here", "acme/route", `"c"`, `null`)
	reads("before it runs here", "acme/route@2", `"a"`, staged)
	if got, err := w.try("acme/route@2", `"c"`); err != nil || got != staged {
		t.Errorf("a test reads %.40s, %v; want %s", got, err, staged)
	}
	w.candidateOf("lua", stage(bucket+1), reader, reader+" ")
	reads("where it runs", "acme/route", `"a"`, staged)
	reads("where it runs", "acme/route", `"b"`, live)
	reads("where it runs", "acme/route@1", `"a"`, live)
	kill(t, w.pid("acme"))
	reads("in the next process", "acme/route", `"c"`, staged)
	reads("in the next process", "acme/route@1", `"c"`, `null`)
	w.candidateOf("lua", func(r *script.Release) { r.Candidate = nil }, reader, reader+" ")
	reads("once it was given up", "acme/route@2", `"a"`, live)
}
