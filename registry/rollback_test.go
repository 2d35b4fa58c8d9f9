package registry

import (
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// written are the lines of a history, newest first.
func written(lines ...script.HistoryEntry) func() ([]script.HistoryEntry, error) {
	return func() ([]script.HistoryEntry, error) { return lines, nil }
}

// TestRollbackWithoutANumber: it goes back to what was live, by the history, and never to
// what was given up.
func TestRollbackWithoutANumber(t *testing.T) {
	lived := func(version uint64) script.HistoryEntry {
		return script.HistoryEntry{Version: version, Time: decideNow}
	}
	tried := func(version, candidate uint64) script.HistoryEntry {
		return script.HistoryEntry{Version: version, Candidate: candidate, Time: decideNow}
	}
	since := func(r script.Revision, e script.HistoryEntry) script.HistoryEntry { e.Revision = r; return e }
	aged := func(r script.Release) script.Release { // its versions come from before the history
		for i := range r.Retained {
			r.Retained[i].CreatedAt = decideNow.Add(-time.Hour)
		}
		return r
	}
	deleted := script.HistoryEntry{Change: script.ChangeDelete, Time: decideNow}

	for _, test := range []struct {
		name string
		cur  script.Release
		past []script.HistoryEntry
		want string
	}{
		{
			"one that was given up is passed over", state(3, false, 1, 2, 3),
			[]script.HistoryEntry{lived(3), tried(1, 3), tried(1, 2), tried(1, 2), lived(1)},
			"rollback 1 true 3 [1 2 3] []",
		},
		{
			"so is one that was replaced on its way", state(4, false, 1, 2, 3, 4),
			[]script.HistoryEntry{lived(4), tried(2, 4), tried(2, 3), lived(2), lived(1)},
			"rollback 2 true 4 [1 2 3 4] []",
		},
		{
			"and one that was stored beside a pin", state(3, false, 1, 2, 3),
			[]script.HistoryEntry{lived(3), lived(1), lived(1)},
			"rollback 1 true 3 [1 2 3] []",
		},
		{
			"what ran last counts, not the number", state(4, false, 1, 2, 3, 4),
			[]script.HistoryEntry{lived(4), lived(2), lived(3), lived(2)},
			"rollback 2 true 4 [1 2 3 4] []",
		},
		{
			"again, it goes further back", state(2, true, 1, 2, 3),
			[]script.HistoryEntry{lived(2), lived(3), lived(2), lived(1)},
			"rollback 1 true 3 [1 2 3] []",
		},
		{
			"one that was promoted by hand was live", state(3, false, 1, 2, 3),
			[]script.HistoryEntry{lived(3), lived(2), tried(1, 2), lived(1)},
			"rollback 2 true 3 [1 2 3] []",
		},
		{
			"one that is gone is passed over", state(3, false, 1, 3),
			[]script.HistoryEntry{lived(3), lived(2), lived(1)},
			"rollback 1 true 3 [1 3] []",
		},
		{"one that is not retained any more", state(3, false, 3), []script.HistoryEntry{lived(3), lived(2)}, "NOTFOUND"},
		{"none but given up ones", state(3, false, 1, 2, 3), []script.HistoryEntry{lived(3), tried(3, 3), tried(2, 2), tried(1, 1)}, "NOTFOUND"},
		{
			"what is untried after another", trying(2, with(testsOnly, state(2, false, 1, 2))),
			[]script.HistoryEntry{tried(2, 2), tried(1, 1)},
			"NOTFOUND",
		},
		{
			"what is untried after a deletion", trying(2, with(testsOnly, state(2, false, 2))),
			[]script.HistoryEntry{tried(2, 2), deleted, lived(1)},
			"NOTFOUND",
		},
		{
			"what was written since is not looked at", state(3, false, 1, 2, 3),
			[]script.HistoryEntry{since(9, lived(2)), since(8, lived(3)), since(7, lived(3)), since(6, lived(1))},
			"rollback 1 true 3 [1 2 3] []",
		},

		{"the active one, where there is a candidate", trying(3, with(both, state(2, false, 1, 2, 3))), nil, "rollback 2 true 3 [1 2 3] []"},
		{"also once that was given up", failed(3, with(both, state(2, false, 1, 2, 3))), nil, "rollback 2 true 3 [1 2 3] []"},
		{"also where it is pinned", failed(3, with(both, state(2, true, 1, 2, 3))), nil, "rollback 2 true 3 [1 2 3] []"},

		{"imported, with little history", aged(state(3, false, 1, 2, 3)), []script.HistoryEntry{lived(3)}, "rollback 2 true 3 [1 2 3] []"},
		{"imported, and one was given up", aged(state(3, false, 1, 2, 3)), []script.HistoryEntry{lived(3), tried(3, 2)}, "rollback 1 true 3 [1 2 3] []"},
		{"imported, and one was live since", aged(state(3, false, 1, 2, 3)), []script.HistoryEntry{lived(3), lived(1)}, "rollback 1 true 3 [1 2 3] []"},
		{"imported, and all were given up", aged(state(2, false, 1, 2)), []script.HistoryEntry{lived(2), tried(2, 1)}, "NOTFOUND"},
		{"without a history", aged(state(2, false, 1, 2)), nil, "NOTFOUND"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cur, _ := recorded(test.cur)
			d, err := decideRollback(cur, 0, written(test.past...), knownSpecs, decideWrite, moment{now: decideNow})
			if got := describe(d, err); got != test.want {
				t.Errorf("got %s (%v), want %s", got, err, test.want)
			}
			if err == nil {
				wantSound(t, d)
			}
		})
	}
	silent := script.Errorf(script.Unavailable, "", "no answer")
	_, err := decideRollback(state(2, false, 1, 2), 0, func() ([]script.HistoryEntry, error) { return nil, silent }, knownSpecs, decideWrite, moment{now: decideNow})
	if script.KindOf(err) != script.Unavailable {
		t.Errorf("a store that gives no answer: %v", err)
	}
	cur, _ := recorded(state(2, false, 1, 2))
	if _, err := decideRollback(cur, 1, func() ([]script.HistoryEntry, error) { return nil, silent }, knownSpecs, decideWrite, moment{now: decideNow}); err != nil {
		t.Errorf("to a version that is named: %v, want no look at the history", err)
	}
}
