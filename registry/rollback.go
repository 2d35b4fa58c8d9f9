package registry

import (
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// decideRollback decides on going back to the version, or, if that is 0, to what ran
// before: past returns the lines of the script's history, newest first.
func decideRollback(cur script.Release, number uint64, past func() ([]script.HistoryEntry, error), specs specs, w Write, now time.Time) (decision, error) {
	if err := mustLive(cur); err != nil {
		return decision{}, err
	}
	if number == 0 {
		target, err := before(cur, past)
		if err != nil {
			return decision{}, err
		}
		return decideHeld(cur, target, specs, script.ChangeRollback, w, now)
	}
	if number > cur.Active.Number {
		return decision{}, script.Errorf(script.Invalid, "version",
			"%d is newer than the active version %d: pin it", number, cur.Active.Number)
	}
	target, ok := cur.Retains(number)
	if !ok {
		return decision{}, notRetained("version", cur, number)
	}
	return decideHeld(cur, target, specs, script.ChangeRollback, w, now)
}

// before returns the version to go back to.
func before(cur script.Release, past func() ([]script.HistoryEntry, error)) (script.Version, error) {
	if cur.Candidate != nil && !cur.Untried() {
		return cur.Active, nil // what runs where the candidate does not, also if it was given up
	}
	lines, err := past()
	if err != nil {
		return script.Version{}, err
	}
	for len(lines) > 0 && lines[0].Revision > cur.Revision { // written since: another release's past
		lines = lines[1:]
	}
	if v, ok := liveBefore(cur, lines); ok {
		return v, nil
	}
	if v, ok := olderThan(cur, lines); ok {
		return v, nil
	}
	return script.Version{}, script.Errorf(script.NotFound, "version",
		"%s retains no version older than %d that was live before: name the version to go back to", cur.Name, cur.Active.Number)
}

// liveBefore returns the retained version below the active one that was live last.
func liveBefore(cur script.Release, lines []script.HistoryEntry) (script.Version, bool) {
	for _, e := range lines {
		if e.Version == e.Candidate || e.Version >= cur.Active.Number { // of the first nothing ran
			continue
		}
		if v, ok := cur.Retains(e.Version); ok {
			return v, true
		}
	}
	return script.Version{}, false
}

// olderThan returns the highest retained version below the active one that was there
// before the history begins, such as in another registry, and is not known to have been a
// candidate since.
func olderThan(cur script.Release, lines []script.HistoryEntry) (script.Version, bool) {
	if len(lines) == 0 {
		return script.Version{}, false
	}
	begins := lines[len(lines)-1].Time
	for _, v := range slices.Backward(cur.Retained) {
		tried := slices.ContainsFunc(lines, func(e script.HistoryEntry) bool { return e.Candidate == v.Number })
		if v.Number < cur.Active.Number && v.CreatedAt.Before(begins) && !tried {
			return v, true
		}
	}
	return script.Version{}, false
}
