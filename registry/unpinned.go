package registry

import (
	"cmp"
	"context"

	"github.com/scriptorium-dev/scriptorium/script"
)

// unpinned returns the change that had pinned the script, if the publish ended that. The
// publish is made by now: a history that cannot be read leaves out who pinned, and why.
func (r *Registry) unpinned(ctx context.Context, name script.Name, d decision) *script.HistoryEntry {
	before := d.repeated && d.changed // what it changed then, the history says
	if d.pinned == 0 && !before {
		return nil
	}
	lines, err := r.store.History(ctx, name)
	if err != nil {
		lines = nil
	}
	var made script.HistoryEntry // the publish; none of a dry run
	for len(lines) > 0 && lines[0].Revision > d.before {
		made, lines = lines[0], lines[1:]
	}
	switch {
	case len(lines) > 0 && lines[0].Pinned && (d.pinned != 0 || made.Revision != 0 && !made.Pinned):
		pin := pinLine(lines)
		return &pin
	case d.pinned != 0:
		return &script.HistoryEntry{Version: d.pinned, Pinned: true}
	}
	return nil
}

// pinLine returns the line that pinned what the first of the lines, newest first, has
// pinned.
func pinLine(lines []script.HistoryEntry) script.HistoryEntry {
	pin := lines[0]
	for _, line := range lines[1:] {
		if !line.Pinned || pinnedVersion(line) != pinnedVersion(pin) {
			break
		}
		pin = line
	}
	switch pin.Change {
	case script.ChangePin, script.ChangeRollback, script.ChangePublish, script.ChangeImport:
	default: // the line that pinned is older than the history
		pin = script.HistoryEntry{Version: pin.Version, Candidate: pin.Candidate, Pinned: true}
	}
	return pin
}

// pinnedVersion is the version that the line's pin names: one may be pinned before it is
// active.
func pinnedVersion(line script.HistoryEntry) uint64 { return cmp.Or(line.Candidate, line.Version) }
