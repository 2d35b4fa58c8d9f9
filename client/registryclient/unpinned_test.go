package registryclient_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestUnpinningNamesTheWayBack: whoever follows the warning gets what ran before, and never
// a version that failed its tests, or has yet to pass them.
func TestUnpinningNamesTheWayBack(t *testing.T) {
	live := script.Release{Name: route, Active: script.Version{Number: 3}}
	untried := script.Release{
		Name: route, Active: script.Version{Number: 1},
		Candidate: &script.Candidate{Version: script.Version{Number: 1}, Failed: "tests[0]"},
	}
	for name, test := range map[string]struct {
		release script.Release
		pin     script.HistoryEntry
		want    string
	}{
		"live":                 {live, script.HistoryEntry{Version: 2}, "acme/route was pinned at v2; this publish unpinned it, and v3 is live. To return: scriptctl pin acme/route 2"},
		"a candidate":          {live, script.HistoryEntry{Version: 1, Candidate: 2}, "acme/route was pinned at v2, which was still a candidate; this publish unpinned it, and v3 is live. To return to v1: scriptctl pin acme/route 1"},
		"nothing was live":     {live, script.HistoryEntry{Version: 1, Candidate: 1}, "acme/route was pinned at v1, which was still a candidate; this publish unpinned it, and v3 is live"},
		"nothing is live yet":  {untried, script.HistoryEntry{Version: 1, Candidate: 1}, "acme/route was pinned at v1, which was still a candidate; this publish unpinned it, and nothing is live"},
		"the history is short": {live, script.HistoryEntry{Version: 2, Pinned: true}, "acme/route was pinned at v2; "},
	} {
		p := registryclient.Published{Release: test.release, Unpinned: &test.pin}
		if got := p.Unpinning(); !strings.HasPrefix(got, test.want) || strings.HasSuffix(test.want, "live") && got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
