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

// changeSets are those of which a look has found candidates.
type changeSets map[setKey]*changeSet

type setKey struct {
	tenant, name string
	attempt      uint64
}

// changeSet is what a look has found of a change set.
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

// block has the change set of the candidate wait.
func (s changeSets) block(c *fleet.Candidacy) {
	if of := s.of(c); of != nil {
		of.blocked = true
	}
}

// add adds the candidate with its next move, if it is part of a change set. It reports whether the
// move is not to be made by itself.
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

// ready returns the moves of the change sets that can make one.
func (s changeSets) ready() (moves []readyMove) {
	for _, of := range s {
		if m, ok := of.next(); ok {
			moves = append(moves, m)
		}
	}
	return moves
}

// next returns the move of the change set: all candidates are given up if one is, and go on when all
// are ready to. Those of scripts that are new take no steps, and are live with the others.
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

// reason says of which script it is that the change set is given up.
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
