package rollout

import (
	"fmt"
	"slices"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
)

// together reports whether the candidates of a change set make such a move together. The others are
// of one script: that its agents run the candidate, that one is lost, that calls are counted.
func together(m registry.Move) bool { return m.Step > 0 || m.Promote || m.Failed != "" }

// changeSets are the change sets whose candidates the controller found in one pass.
type changeSets map[setKey]*changeSet

type setKey struct {
	tenant, name string
	attempt      uint64
}

// changeSet has the candidates of one change set that the controller found.
type changeSet struct {
	scripts int // that it has
	found   []readyMove
	blocked bool // a move of one of its candidates is under way, or has just been made
}

func (s changeSets) of(c *fleet.Candidacy) *changeSet {
	set := c.Release.Candidate.Set
	if set == nil {
		return nil
	}
	key := setKey{c.Release.Name.Tenant, set.Name, set.Attempt}
	if s[key] == nil {
		s[key] = &changeSet{scripts: len(set.Scripts)}
	}
	return s[key]
}

// block makes the change set of the candidate wait.
func (s changeSets) block(c *fleet.Candidacy) {
	if of := s.of(c); of != nil {
		of.blocked = true
	}
}

// add adds the candidate and its next move, if it is part of a change set. It reports whether the
// candidate makes this move only together with the others.
func (s changeSets) add(m readyMove) bool {
	of := s.of(m.candidacies[0])
	if of == nil {
		return false
	}
	if m.move != (registry.Move{}) && !together(m.move) {
		of.blocked = true
		return false
	}
	of.found = append(of.found, m)
	return true
}

// ready returns a move for each change set whose candidates are ready for one.
func (s changeSets) ready() (moves []readyMove) {
	for _, of := range s {
		if m, ok := of.next(); ok {
			moves = append(moves, m)
		}
	}
	return moves
}

// next returns the move of the change set. One failure ends all candidates. A step or the promotion waits
// until all candidates are ready. A new script takes no steps, and goes live with the others.
func (s *changeSet) next() (readyMove, bool) {
	if s.blocked {
		return readyMove{}, false
	}
	failed := slices.IndexFunc(s.found, func(m readyMove) bool { return m.move.Failed != "" })
	if failed >= 0 {
		return joint(s.found, registry.Move{Failed: reason(s.found[failed])}), true
	}
	if len(s.found) < s.scripts {
		return readyMove{}, false
	}
	var stepping []readyMove
	for _, m := range s.found {
		switch {
		case m.move == (registry.Move{}):
			return readyMove{}, false
		case m.move.Step > 0:
			stepping = append(stepping, m)
		}
	}
	if len(stepping) > 0 {
		return joint(stepping, stepping[0].move), true
	}
	return joint(s.found, registry.Move{Promote: true}), true
}

// reason returns why the change set failed, with the name of the script.
func reason(m readyMove) string {
	c := m.candidacies[0]
	if c.Left != "" {
		return m.move.Failed
	}
	return fmt.Sprintf("%s: %s", c.Release.Name, m.move.Failed)
}

func joint(list []readyMove, move registry.Move) readyMove {
	out := readyMove{move: move}
	for _, m := range list {
		out.tasks, out.candidacies = append(out.tasks, m.tasks...), append(out.candidacies, m.candidacies...)
	}
	return out
}
