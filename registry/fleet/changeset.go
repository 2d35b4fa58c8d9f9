package fleet

import (
	"fmt"

	"github.com/scriptorium-dev/scriptorium/script"
)

// restOf yields the other scripts of the change set, with nil for a script that does not exist.
func (f *Fleet) restOf(of script.Name, set *script.Membership) func(yield func(script.Name, *progress) bool) {
	return func(yield func(script.Name, *progress) bool) {
		if set == nil {
			return
		}
		for _, other := range set.Scripts {
			name := script.Name{Tenant: of.Tenant, Script: other}
			if name != of && !yield(name, f.scripts[name]) {
				return
			}
		}
	}
}

// rest returns why the rest of the change set cannot go live with the script any more, or which record
// is unreadable, so that nobody can tell.
func (f *Fleet) rest(of script.Name, set *script.Membership) (left, unread string) {
	for name, p := range f.restOf(of, set) {
		switch {
		case f.unreadableScript(name) != nil:
			unread = fmt.Sprintf("the record of %s cannot be read", name)
		case p == nil || p.release.Deleted:
			return fmt.Sprintf("%s was deleted, which was part of the %s", name, set), ""
		case !p.release.Candidate.Is(set):
			return fmt.Sprintf("%s is not part of the %s any more: somebody changed it by itself", name, set), ""
		case p.release.Candidate.Failed != "":
			return fmt.Sprintf("%s: %s", name, p.release.Candidate.Failed), ""
		}
	}
	return "", unread
}

// restCandidates returns the other candidates of the change set.
func (f *Fleet) restCandidates(of script.Name, set *script.Membership) (list []*script.Candidate) {
	for _, p := range f.restOf(of, set) {
		if p != nil && p.release.Candidate.Is(set) {
			list = append(list, p.release.Candidate)
		}
	}
	return list
}

// restWaits returns what the other candidates of the change set wait for, and "" if nothing.
func (f *Fleet) restWaits(of script.Name, set *script.Membership, s *survey) string {
	for name, p := range f.restOf(of, set) {
		c := f.candidacies[name]
		if c == nil || p == nil || !f.moves(p) {
			continue
		}
		if why, _ := f.cfg.Judge(f.candidacy(c, p, s)); why != "" {
			return fmt.Sprintf("%s of the %s: %s", name, set, why)
		}
	}
	return ""
}
