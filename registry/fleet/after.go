package fleet

import (
	"fmt"
	"slices"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Dependency is a script that a candidate comes after, and has to wait for.
type Dependency struct {
	Name script.Name
	// Why the candidate has to wait; "" if only the Lacking stand in the way: agents that have yet to
	// activate the script, or could not.
	Why     string
	Lacking int
}

// unmetAfter returns the dependencies of the plan that a candidate has to wait for.
func (s *survey) unmetAfter(plan *script.Plan) (unmet []Dependency) {
	for _, name := range plan.After {
		if d := s.dependency(name); d.Why != "" || d.Lacking > 0 {
			unmet = append(unmet, d)
		}
	}
	return unmet
}

// dependency is the script as all candidates that come after it have it. There may be many, and
// many agents that could not activate it.
func (s *survey) dependency(name script.Name) Dependency {
	if d, ok := s.dependencies[name]; ok {
		return d
	}
	f, d := s.fleet, Dependency{Name: name, Why: s.fleet.notLive(name)}
	if d.Why == "" {
		p := f.scripts[name]
		d.Lacking = -f.reachedBy(p)
		for _, g := range f.followers(name.Tenant) {
			d.Lacking += g.levels.total()
		}
		for a := range f.without(p) {
			if a.report.Activated >= p.release.Revision {
				d.Lacking++
			}
		}
	}
	if s.dependencies == nil {
		s.dependencies = map[script.Name]Dependency{}
	}
	s.dependencies[name] = d
	return d
}

// notLive says why the latest version of the script is not live everywhere; "" if it is.
func (f *Fleet) notLive(name script.Name) string {
	p := f.scripts[name]
	switch {
	case f.unreadableScript(name) != nil:
		return fmt.Sprintf("the record of %s cannot be read", name)
	case p == nil || p.release.Deleted:
		return fmt.Sprintf("%s does not exist", name)
	}
	switch r := &p.release; {
	case r.CandidateState() == script.CandidateFailed:
		return fmt.Sprintf("version %d of %s was given up", r.Candidate.Version.Number, name)
	case r.Frozen():
		return fmt.Sprintf("version %d of %s waits for the end of a freeze", r.Candidate.Version.Number, name)
	case r.Candidate != nil:
		return fmt.Sprintf("version %d of %s is not live yet", r.Candidate.Version.Number, name)
	case r.Hold != nil && r.Active.Number != r.Latest:
		return fmt.Sprintf("%s is held at version %d, and its latest is %d", name, r.Active.Number, r.Latest)
	case !r.Enabled:
		return fmt.Sprintf("%s is disabled", name)
	}
	return ""
}

// circles returns those of the plan's scripts that come after the plan's own script, or after one
// that does.
func (f *Fleet) circles(plan *script.Plan, of script.Name) (circles []script.Name) {
	seen := map[script.Name]bool{}
	for _, name := range plan.After {
		if f.comesAfter(name, of, seen) {
			circles = append(circles, name)
			clear(seen) // those lead there, too
		}
	}
	return circles
}

// comesAfter reports whether the script comes after the other, or after one that does: it looks at
// the nearest first, and not at those that were seen, which do not.
func (f *Fleet) comesAfter(name, other script.Name, seen map[script.Name]bool) bool {
	for next := []script.Name{name}; len(next) > 0; next = next[1:] {
		p := f.scripts[next[0]]
		if p == nil || p.release.Deleted || seen[next[0]] {
			continue
		}
		if len(seen) >= maxDependencies {
			return false
		}
		seen[next[0]] = true
		if slices.Contains(p.release.Plan().After, other) {
			return true
		}
		next = append(next, p.release.Plan().After...)
	}
	return false
}

// maxDependencies bounds how many scripts are looked at for circles.
const maxDependencies = 10_000
