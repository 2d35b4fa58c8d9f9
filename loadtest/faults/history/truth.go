package history

import (
	"cmp"
	"fmt"
	"slices"
)

// state is a script between two changes of it.
type state struct {
	revision int64
	version  uint64
	digest   string
	enabled  bool
	deleted  bool // or never there
	since    Time // it cannot have been before
	id       string
	change   string
}

func (s state) String() string {
	switch {
	case s.revision == 0:
		return "nothing"
	case s.deleted:
		return fmt.Sprintf("revision %d: deleted", s.revision)
	case !s.enabled:
		return fmt.Sprintf("revision %d: version %d, disabled", s.revision, s.version)
	}
	return fmt.Sprintf("revision %d: version %d", s.revision, s.version)
}

// shows reports whether an agent in this state may answer so.
func (s state) shows(g Sight) bool {
	switch g.State {
	case Absent:
		return s.deleted
	case Disabled:
		return !s.deleted && !s.enabled && (g.Revision == 0 || g.Revision == s.revision && g.Version == s.version && g.Digest == s.digest)
	case Runs:
		return !s.deleted && s.enabled && g.Version == s.version && g.Digest == s.digest && (g.Revision == 0 || g.Revision == s.revision)
	}
	return false
}

// truth is the life of each script, oldest state first, according to the registry's
// history. The first state is that it is not there.
type truth map[string][]state

func (h *History) truth() truth {
	began := map[string]Time{}
	for _, w := range h.Writes {
		began[w.ID] = w.Start
	}
	entries := slices.Clone(h.Entries)
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Revision, b.Revision) })
	t := truth{}
	for _, name := range h.Scripts {
		t[name] = []state{{deleted: true}}
	}
	for _, e := range entries {
		states, ok := t[e.Script]
		if !ok {
			continue
		}
		last := states[len(states)-1]
		next := state{
			revision: e.Revision, version: e.Version, digest: e.Digest,
			enabled: last.enabled, since: began[e.ID], id: e.ID, change: e.Change,
		}
		switch e.Change {
		case "publish":
			next.enabled = last.enabled || last.deleted
		case "enable":
			next.enabled = true
		case "disable":
			next.enabled = false
		case "delete":
			next.enabled, next.deleted = false, true
		case "repair": // of a record, be it a tombstone
			next.deleted = last.deleted
		}
		t[e.Script] = append(states, next)
	}
	return t
}
