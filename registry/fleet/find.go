package fleet

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Search says which scripts to find, and in which order.
type Search struct {
	Tenant   string                   // all tenants if empty
	Readable func(tenant string) bool // as in Filter
	Words    []string                 // that the text "tenant/name" has; in lower case
	Event    string                   // of the trigger; any if empty
	Engine   string                   // of the active version; any if empty
	State    State
	Order    Order
	// Descending is the other way round. Scripts that are equal stay in the order of their names.
	Descending bool
	Offset     int
	Limit      int
	Caller     string // as in Filter
}

// State is what a script is like.
type State int

// The states. A script can be in several.
const (
	AnyState        State = iota
	WithCandidate         // that is on its way, or waits for the end of a freeze
	CandidateFailed       // it was given up
	Held
	Disabled
	Failing      // an agent could not activate it, or its candidate did not pass the tests there
	NotConverged // as ScriptStatus has it
	Unreadable
)

// Order is how scripts are sorted.
type Order int

// The orders.
const (
	ByName Order = iota
	ByChange
	ByFailing // by the number of agents
)

// Found is a window of the scripts that were found. Its Status has no More.
type Found struct {
	Status
	Total int // all that were found
}

// judgedAtOnce is how many scripts are judged while the fleet is locked, before reports have their turn.
const judgedAtOnce = 512

// Find searches scripts. It locks the fleet for a short time at once: for what it shows, and for as much of what it
// looks through as judgedAtOnce. So what it finds may change meanwhile.
func (f *Fleet) Find(ctx context.Context, s Search) (found Found, err error) {
	err = f.search(ctx, s.Caller, func() error {
		found, err = f.find(ctx, &s)
		return err
	})
	return found, err
}

func (f *Fleet) find(ctx context.Context, s *Search) (found Found, err error) {
	f.mu.Lock()
	f.gathered(f.now())
	list, unreadable := f.catalog.merged(), len(f.unreadable) > 0
	f.mu.Unlock()
	matched := s.matched(list, unreadable)
	var failing []int
	if unreadable || s.State >= Failing || s.Order == ByFailing {
		if matched, failing, err = f.judge(ctx, matched, s); err != nil {
			return Found{}, err
		}
	}
	rows := s.window(matched, failing)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, p := range rows {
		rows[i] = f.scripts[p.release.Name] // what it is now
	}
	rows = slices.DeleteFunc(rows, func(p *progress) bool { return p == nil || f.isGone(p) })
	found = Found{Status: f.overview(&Filter{Tenant: s.Tenant, Readable: s.Readable}), Total: len(matched)}
	found.Scripts = f.statuses(rows)
	return found, nil
}

// matched returns what matches by what does not change, and what may be deleted if there are records
// that cannot be read.
func (s *Search) matched(list []*entry, unreadable bool) []*progress {
	var matched []*progress
	choice{tenant: s.Tenant, readable: s.Readable}.each(list, func(p *progress) bool {
		if s.matches(p) && (unreadable || !p.release.Deleted) {
			matched = append(matched, p)
		}
		return true
	})
	return matched
}

func (s *Search) matches(p *progress) bool {
	r := &p.release
	for _, word := range s.Words {
		if !strings.Contains(p.entry.text, word) {
			return false
		}
	}
	switch s.State {
	case WithCandidate:
		if r.Candidate == nil || r.Candidate.Failed != "" {
			return false
		}
	case CandidateFailed:
		if r.Candidate == nil || r.Candidate.Failed == "" {
			return false
		}
	case Held:
		if r.Hold == nil {
			return false
		}
	case Disabled:
		if r.Enabled || r.Deleted {
			return false
		}
	}
	return (s.Event == "" || s.Event == r.Settings.Trigger.Event) && (s.Engine == "" || s.Engine == r.Active.Engine)
}

// judge leaves out what does not match by what the agents say. It returns on how many agents each of the rest fails.
func (f *Fleet) judge(ctx context.Context, matched []*progress, s *Search) (rest []*progress, failing []int, err error) {
	for some := range slices.Chunk(matched, judgedAtOnce) {
		if err := ctx.Err(); err != nil {
			return nil, nil, script.Errorf(script.Unavailable, "", "the search did not end: %w", err)
		}
		f.mu.Lock()
		for _, p := range some {
			if n, ok := f.judged(p, s.State); ok {
				rest, failing = append(rest, p), append(failing, n)
			}
		}
		f.mu.Unlock()
	}
	return rest, failing, nil
}

// judged reports whether the script is in the state, and on how many agents it fails.
func (f *Fleet) judged(p *progress, state State) (failing int, ok bool) {
	p = f.scripts[p.release.Name]
	if p == nil || f.isGone(p) {
		return 0, false
	}
	for a := range f.failing[p.release.Name] {
		if a.couldNot(&p.release) { // others have yet to say that they got over what came before
			failing = len(f.failing[p.release.Name])
			break
		}
	}
	c := f.candidacies[p.release.Name]
	if c != nil {
		failing += len(c.failed)
	}
	switch state {
	case Failing:
		return failing, failing > 0
	case NotConverged:
		return failing, f.gathering || c != nil || f.unreadableScript(p.release.Name) != nil || !f.everywhere(p)
	case Unreadable:
		return failing, f.unreadableScript(p.release.Name) != nil
	}
	return failing, true
}

// window returns the part that was asked for of those that were found, in order. failing may be nil if the order is
// another.
func (s *Search) window(found []*progress, failing []int) []*progress {
	from := min(s.Offset, len(found))
	rows := make([]*progress, 0, min(s.Limit, len(found)-from))
	at := s.sorted(found, failing)
	for i := from; len(rows) < cap(rows); i++ {
		rows = append(rows, found[at(i)])
	}
	return rows
}

// sorted returns what says which of those that were found, in the order of their names, is at which place.
func (s *Search) sorted(found []*progress, failing []int) func(place int) int {
	if s.Order == ByName {
		return func(place int) int {
			if s.Descending {
				return len(found) - 1 - place
			}
			return place
		}
	}
	type key struct {
		by int64
		at int
	}
	keys := make([]key, len(found))
	for i, p := range found {
		by := int64(p.release.Revision)
		if s.Order == ByFailing {
			by = int64(failing[i])
		}
		if s.Descending {
			by = -by
		}
		keys[i] = key{by, i}
	}
	slices.SortFunc(keys, func(a, b key) int { return cmp.Or(cmp.Compare(a.by, b.by), cmp.Compare(a.at, b.at)) })
	return func(place int) int { return keys[place].at }
}
