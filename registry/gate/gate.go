// Package gate asks systems outside of Scriptorium whether the step of a candidate passes: a
// Prometheus by a query, or a webhook.
//
// Who publishes names a source; where that is and by what the registry is believed there, the
// operator of the registry says in a file. So no publisher can have the registry call an address.
// Sources asks one question. Asker says when which is asked, so that none is asked too often and no
// source delays others.
package gate

import (
	"strings"
	"unicode"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Question is what a source is asked: whether the candidate passes the step that it is in.
type Question struct {
	Name    script.Name
	Gate    script.Gate // of the step
	Version uint64      // the candidate
	Digest  script.Digest
	Active  uint64 // the version that runs elsewhere
	Attempt uint64 // as script.Candidate has it,
	Tries   int    // and as people count attempts, from 1
	Step    int    // from 1
}

// Answer is what came of a question.
type Answer struct {
	Result fleet.GateResult
	Text   string // for people; at most maxText bytes, on one line
}

// maxText is the length of the longest Answer.Text.
const maxText = 240

func passes(text string) Answer { return Answer{fleet.GatePasses, text} }
func waits(text string) Answer  { return Answer{fleet.GateWaits, text} }
func aborts(text string) Answer { return Answer{fleet.GateAborts, text} }
func fails(text string) Answer  { return Answer{fleet.GateFails, text} }

// printable is s, which a stranger wrote, as a terminal and a log can show it.
func printable(s string) string {
	s = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(s, "\uFFFD"))
	const more = "…"
	if s = strings.TrimSpace(s); len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText-len(more)], "") + more
}
