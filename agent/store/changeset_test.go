package store_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/store"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestContentsOfAChangeSet: what is staged is kept while the candidate is there, also across a
// restart, and removed with it unless the value has it then.
func TestContentsOfAChangeSet(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	large := strings.Repeat("large ", 20_000) // than what goes into the journal
	version := func(number uint64, src string) script.Version {
		return script.Version{Number: number, Digest: script.DigestOf([]byte(src)), Engine: "lua", Size: len(src)}
	}
	release := func(revision script.Revision, active int, set *script.Membership) script.Object {
		r := &script.Release{Name: script.Name{Tenant: "acme", Script: "route"}, Revision: revision, Enabled: true, Latest: 2}
		r.Retained = []script.Version{version(1, "one"), version(2, "two")}
		r.Active = r.Retained[active-1]
		if set != nil {
			r.Candidate = &script.Candidate{Version: r.Retained[1], Attempt: 5, Set: set}
		}
		return script.Object{Release: r}
	}
	set := &script.Membership{Name: "cart-2", Attempt: 5, Scripts: []string{"route"}}
	for i, content := range []string{"small", large} {
		set.Values = append(set.Values, script.StagedValue{Key: string(rune('a' + i)), Digest: script.DigestOf([]byte(content)), Size: len(content)})
	}
	want := func(when string, contents map[string]bool) {
		t.Helper()
		for content, there := range contents {
			got, err := s.Source(script.DigestOf([]byte(content)))
			if (err == nil && string(got) == content) != there || s.Retains(script.DigestOf([]byte(content))) != there {
				t.Errorf("%s: %.10q is there: %v, want %v", when, content, err == nil, there)
			}
		}
	}
	save := func(revision script.Revision) {
		t.Helper()
		must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: revision}))
	}
	must(t, putAll(s, []script.Object{release(10, 1, set)}, "one", "two", "small", large))
	save(10)
	want("on its way", map[string]bool{"small": true, large: true})
	must(t, s.Close())
	s, loaded := open(t, dir)
	if len(loaded.Lost) != 0 || len(loaded.Releases) != 1 || !loaded.Releases[0].Candidate.Is(set) {
		t.Errorf("loaded is %+v, lost %v", loaded.Releases, loaded.Lost)
	}
	save(11)
	want("after a restart", map[string]bool{"small": true, large: true})
	// It goes live: one value has what was staged.
	must(t, putAll(s, []script.Object{release(12, 2, nil), value("acme/a", 12, "small")}))
	save(12)
	want("live", map[string]bool{"small": true, large: false, "two": true})
	// Another comes, and is given up.
	must(t, putAll(s, []script.Object{release(13, 1, set)}, large))
	save(13)
	want("the next one", map[string]bool{"small": true, large: true})
	must(t, putAll(s, []script.Object{release(14, 1, nil)}))
	save(14)
	want("given up", map[string]bool{"small": true, large: false})
	must(t, s.Close())
}
