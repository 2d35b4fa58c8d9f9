package dev

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// announcer prints a line for each release that the fleet came to run, whoever
// changed it.
type announcer struct {
	out   io.Writer
	known map[script.Name]script.Revision // announced, or there from the start
	gone  map[script.Name]bool            // deleted, and not gone from every agent yet
	ask   func(script.Name) (registryclient.ScriptStatus, error)
}

func newAnnouncer(out io.Writer, start *overview, ask func(script.Name) (registryclient.ScriptStatus, error)) *announcer {
	a := &announcer{out: out, known: map[script.Name]script.Revision{}, gone: map[script.Name]bool{}, ask: ask}
	for name := range start.scripts {
		a.known[name] = start.scripts[name].Release.Revision
		if start.open[name] {
			a.known[name] = 0 // there is something to say of it yet
		}
	}
	return a
}

// hear takes what has changed of the fleet's status.
func (a *announcer) hear(change registryclient.StatusChange) {
	present := map[script.Name]bool{}
	for i := range change.Scripts {
		s := &change.Scripts[i]
		name := s.Release.Name
		present[name] = true
		delete(a.gone, name)
		if s.Release.Revision <= a.known[name] {
			continue
		}
		if line, ok := progressLine(s); ok {
			fmt.Fprintln(a.out, line)
			a.known[name] = s.Release.Revision
		}
	}
	gone := change.Gone
	if change.Full {
		for name := range a.known {
			if !present[name] {
				gone = append(gone, name)
			}
		}
	}
	for _, name := range gone {
		a.gone[name] = true
		delete(a.known, name)
	}
	a.hearGone()
}

// hearGone asks how far the deletions have come: a status of all scripts has none
// of those that are deleted.
func (a *announcer) hearGone() {
	for _, name := range sorted(a.gone) {
		s, err := a.ask(name)
		if err != nil || !s.Release.Deleted || !s.Converged {
			continue // the next status brings us here again
		}
		fmt.Fprintf(a.out, "%s deleted on %d/%d agents\n", name, s.Active, s.Desired)
		delete(a.gone, name)
	}
}

// progressLine returns the line for a release, once there is something final to say.
func progressLine(s *registryclient.ScriptStatus) (string, bool) {
	r := &s.Release
	switch r.CandidateState() {
	case "":
	case script.CandidateFailed:
		return candidateFailure(s), true
	default:
		return "", false
	}
	what := "active"
	if !r.Enabled {
		what = "disabled"
	}
	switch {
	case r.Hold != nil:
		what = "held and " + what
	case r.Pinned:
		what = "pinned and " + what
	}
	line := fmt.Sprintf("%s v%d %s %s on %d/%d agents", r.Name, r.Active.Number, r.Active.Digest.Short(), what, s.Active, s.Desired)
	switch {
	case s.Converged:
		return line + took(s.Took), true
	case s.Failed > 0 && s.Waiting() == 0:
		return line + failures(s), true
	}
	return "", false
}

func took(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf(" in %.1f ms", float64(d)/float64(time.Millisecond))
}

func failures(s *registryclient.ScriptStatus) string {
	var b strings.Builder
	for _, f := range s.Failures {
		fmt.Fprintf(&b, "; %s keeps what it had: %v", f.Agent, f.Err)
	}
	return b.String()
}
