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
	if d.pinned == nil && !before {
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
	case len(lines) > 0 && lines[0].Pinned && (d.pinned != nil || made.Revision != 0 && !made.Pinned):
		pin := pinLine(lines)
		return &pin
	}
	return d.pinned
}

// pinLine returns the line that pinned what the first of the lines, newest first, has
// pinned, with the versions of the first: they say whether the pinned version went live.
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
		pin = script.HistoryEntry{Pinned: true}
	}
	last := lines[0]
	pin.Version, pin.Digest, pin.Candidate = last.Version, last.Digest, last.Candidate
	return pin
}

// pinnedVersion is the version that the line's pin names: one may be pinned before it is
// active.
func pinnedVersion(line script.HistoryEntry) uint64 { return cmp.Or(line.Candidate, line.Version) }
