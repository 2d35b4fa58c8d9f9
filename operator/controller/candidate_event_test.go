package controller

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestSayChange: events say what runs, and what becomes of the candidate.
func TestSayChange(t *testing.T) {
	const why = "node-1: tests[beta]: want 1, got 2"
	failed := trying(func(c *script.Candidate) { c.Failed = why })
	another := trying(func(c *script.Candidate) { c.Failed = why })
	another.Latest = 5 // published while the script is pinned to 4
	stored := release()
	stored.Latest = 4
	tests := []struct {
		name    string
		change  Change
		release *script.Release
		want    string
	}{
		{"published", Published, release(), "version 3 (" + release().Active.Digest.Short() + ") is in the registry, at revision 12"},
		{"published while pinned", Published, stored, "version 4 is in the registry; version 3 goes on"},
		{"published while pinned to what was given up", Published, another, "version 5 is in the registry; version 3 goes on"},
		{"published, on trial", Published, trying(nil), "is in the registry, at revision 12: it is rolled out in 2 steps when it has passed its tests; version 3 goes on"},
		{"published, and given up by now", Published, failed, "is in the registry, at revision 12: it was given up: " + why + "; version 3 goes on"},
		{"pinned", Pinned, release(), "version 3 is pinned"},
		{"pinned, and given up by now", Pinned, failed, "version 4 is pinned: it was given up: " + why + "; version 3 goes on"},
		{"unpinned, and given up by now", Unpinned, failed, "the latest version is followed again, 4: it was given up: " + why + "; version 3 goes on"},
		{"enabled", Enabled, release(), "version 3 is enabled"},
		{"enabled, untried", Enabled, untried(""), "the script is enabled; version 4 runs when it has passed its tests"},
		{"enabled, and nothing runs", Enabled, untried(why), "the script is enabled; version 4 was given up: " + why + "; nothing of the script runs"},
		{"disabled", Disabled, untried(""), "the script is disabled: calls are answered DISABLED"},
		{"configured", Configured, release(), "changed: limits, tests"},
	}
	for _, tt := range tests {
		if got := sayChange(tt.change, tt.release, []string{"limits", "tests"}); !strings.HasSuffix(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := wantedVersion(failed); got != 4 || activeVersion(failed) != 3 || activeVersion(untried("")) != 0 {
		t.Errorf("version %d is wanted, %d runs", got, activeVersion(failed))
	}
}

// TestFailuresBesideACandidate: that an agent cannot activate a release is an event of its
// own, but while a candidate is on its way; tests that failed are none.
func TestFailuresBesideACandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, interceptor.Funcs{})
		w.ready()
		ls := w.pass(time.Second)
		w.candidates = true
		ls.Generation, ls.Spec.Source = 2, new("function handle() return 2 end")
		w.update(ls)
		w.pass(2 * time.Second)
		w.told()
		tested := registryclient.AgentFailure{Agent: "node-1", Err: script.Errorf(script.Script, "tests[beta]", "want 1, got 2")}
		full := registryclient.AgentFailure{Agent: "node-2", Err: script.Errorf(script.Internal, "", "the disk is full")}
		expect := func(when string, want ...string) {
			t.Helper()
			w.pass(2 * time.Second)
			if got := strings.Join(w.told(), " "); got != strings.Join(want, " ") {
				t.Errorf("%s: the events are %q, want %q", when, got, want)
			}
		}
		w.failures = []registryclient.AgentFailure{tested, full}
		again := func() {
			w.revision++
			w.release = new(*w.release)
			w.release.Revision = w.revision
		}
		again()
		expect("on its way")
		w.advance(func(r *script.Release) { r.Candidate.Failed = "node-1: tests[beta]: want 1, got 2" })
		expect("given up", "CandidateFailed", "FailedOnNode")
		w.failures = w.failures[:1]
		again()
		expect("well again")
		w.failures = []registryclient.AgentFailure{tested, full}
		again()
		expect("weeks later", "FailedOnNode")
	})
}
