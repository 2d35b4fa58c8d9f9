package registry

import (
	"slices"

	"github.com/scriptorium-dev/scriptorium/script"
)

// decideRollback decides on going back to the version, or, if that is 0, to what ran
// before: past returns the lines of the script's history, newest first.
func decideRollback(cur script.Release, number uint64, past past, specs specs, w Write, at moment) (decision, error) {
	if err := mustLive(cur); err != nil {
		return decision{}, err
	}
	if number == 0 {
		if again, err := tookBack(cur, past); again || err != nil {
			return unchanged(cur), err
		}
		target, err := before(cur, past)
		if err != nil {
			return decision{}, err
		}
		return decideHeld(cur, target, specs, script.ChangeRollback, w, at)
	}
	target, ok := cur.Retains(number)
	if !ok {
		return decision{}, notRetained("version", cur, number)
	}
	if number > cur.Active.Number {
		return decision{}, script.Errorf(script.Invalid, "version",
			"%d is newer than the active version %d: pin it", number, cur.Active.Number)
	}
	return decideHeld(cur, target, specs, script.ChangeRollback, w, at)
}

// tookBack reports whether a rollback brought the version that the script is held at. Who rolls it back once more
// without a number may not know that: two people do so in the same incident.
func tookBack(cur script.Release, past past) (bool, error) {
	if cur.Hold == nil {
		return false, nil
	}
	lines, err := pastOf(cur, past)
	if err != nil {
		return false, err
	}
	for _, e := range lines {
		switch {
		case !e.Held || e.Version != cur.Active.Number || e.Change == script.ChangePin:
			return false, nil
		case e.Change == script.ChangeRollback:
			return true, nil
		}
	}
	return false, nil
}

// before returns the version to go back to.
func before(cur script.Release, past past) (script.Version, error) {
	if cur.Candidate != nil && !cur.Untried() && !cur.Frozen() {
		return cur.Active, nil // what runs where the candidate does not, also if it was given up
	}
	lines, err := pastOf(cur, past)
	if err != nil {
		return script.Version{}, err
	}
	if v, ok := liveBefore(cur, lines); ok {
		return v, nil
	}
	if v, ok := olderThan(cur, lines); ok {
		return v, nil
	}
	if len(cur.Retained) < 2 {
		return script.Version{}, script.Errorf(script.NotFound, "version", "%s has no other version than %d: there is nothing to go back to", cur.Name, cur.Active.Number)
	}
	return script.Version{}, script.Errorf(script.NotFound, "version",
		"%s retains no version older than %d that was live before: name the version to go back to", cur.Name, cur.Active.Number)
}

// pastOf returns the lines up to that of cur.
func pastOf(cur script.Release, past past) ([]script.HistoryEntry, error) {
	lines, err := past()
	for len(lines) > 0 && lines[0].Revision > cur.Revision { // written since: another release's past
		lines = lines[1:]
	}
	return lines, err
}

// ranBefore reports whether the version is, or was, live everywhere.
func ranBefore(cur script.Release, number uint64, past past) (bool, error) {
	if number == cur.Active.Number && !cur.Untried() {
		return true, nil
	}
	lines, err := pastOf(cur, past)
	if err != nil {
		return false, err
	}
	v, _ := cur.Retains(number)
	live := func(e script.HistoryEntry) bool { return e.Version == number && e.Candidate != number }
	return slices.ContainsFunc(lines, live) || isOlder(cur, v, lines), nil
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
	for _, v := range slices.Backward(cur.Retained) {
		if isOlder(cur, v, lines) {
			return v, true
		}
	}
	return script.Version{}, false
}

func isOlder(cur script.Release, v script.Version, lines []script.HistoryEntry) bool {
	tried := slices.ContainsFunc(lines, func(e script.HistoryEntry) bool { return e.Candidate == v.Number })
	return len(lines) > 0 && v.Number < cur.Active.Number && v.CreatedAt.Before(lines[len(lines)-1].Time) && !tried
}
