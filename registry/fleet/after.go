package fleet

import (
	"fmt"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Dependency is a script that a candidate comes after, and has to wait for.
type Dependency struct {
	Name script.Name
	// Why the candidate has to wait; "" if only agents that could not activate the script stand in
	// the way, of which there are Failing.
	Why     string
	Failing int
}

// unmetAfter returns the dependencies of the plan that a candidate has to wait for.
func (f *Fleet) unmetAfter(plan *script.Plan) (unmet []Dependency) {
	for _, name := range plan.After {
		d := Dependency{Name: name, Why: f.notLive(name)}
		if d.Why == "" {
			p := f.scripts[name]
			for range f.without(p) {
				d.Failing++
			}
		}
		if d.Why != "" || d.Failing > 0 {
			unmet = append(unmet, d)
		}
	}
	return unmet
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

// comesAfter reports whether the script comes after the other, or after one that does.
func (f *Fleet) comesAfter(name, other script.Name, seen map[script.Name]bool) bool {
	p := f.scripts[name]
	if p == nil || seen[name] || len(seen) >= maxDependencies {
		return false
	}
	seen[name] = true
	for _, next := range p.release.Plan().After {
		if next == other || f.comesAfter(next, other, seen) {
			return true
		}
	}
	return false
}

// maxDependencies bounds how many scripts are looked at for a cycle.
const maxDependencies = 1000
