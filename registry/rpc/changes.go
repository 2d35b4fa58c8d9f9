package rpc

import (
	"slices"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// sentStatuses are the statuses that a watch has sent last.
type sentStatuses struct {
	scripts map[script.Name]sentStatus // nil: none yet
	round   uint64
}

type sentStatus struct {
	fleet.ScriptStatus
	round uint64 // in which there was such a script
}

// changes returns the statuses that differ from what was sent, and the names of the
// scripts that are gone. It takes them for sent.
func (s *sentStatuses) changes(now []fleet.ScriptStatus) (changed []fleet.ScriptStatus, gone []string) {
	if s.scripts == nil {
		s.scripts = make(map[script.Name]sentStatus, len(now))
	}
	s.round++
	for i := range now {
		name := now[i].Release.Name
		last, ok := s.scripts[name]
		if !ok || !last.Same(&now[i]) {
			changed = append(changed, now[i])
			last.ScriptStatus = now[i]
			// These stand for all of the release: see Same.
			last.Release = script.Release{Revision: now[i].Release.Revision, ChangedAt: now[i].Release.ChangedAt}
		}
		last.round = s.round
		s.scripts[name] = last
	}
	if len(s.scripts) == len(now) {
		return changed, nil
	}
	for name, last := range s.scripts {
		if last.round != s.round {
			gone = append(gone, name.String())
			delete(s.scripts, name)
		}
	}
	slices.Sort(gone)
	return changed, gone
}
