package profiling

import (
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/scriptorium-dev/scriptorium/engine"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of what an agent says.
const (
	maxBuiltin = 64      // bytes of a name
	maxCount   = 1 << 50 // of anything, so that sums do not overflow
	maxLine    = script.MaxSourceBytes
)

// believable returns what can be true of what an agent says. How much it is says the query.
func believable(m *eventv1.ScriptProfile) *eventv1.ScriptProfile {
	out := &eventv1.ScriptProfile{
		Version: m.GetVersion(), Calls: min(m.GetCalls(), maxCount), MissedInstructions: min(m.GetMissedInstructions(), maxCount),
	}
	for _, f := range m.GetFrames() {
		out.Frames = append(out.Frames, &eventv1.ProfileFrame{Builtin: builtinText(f.GetBuiltin()), Function: line(f.GetFunction()), Line: line(f.GetLine())})
	}
	for _, s := range m.GetStacks() {
		if isStack(s, len(out.GetFrames())) {
			out.Stacks = append(out.Stacks, &eventv1.ProfileStack{Frames: s.GetFrames(), Instructions: min(s.GetInstructions(), maxCount)})
		}
	}
	return out
}

func isStack(s *eventv1.ProfileStack, frames int) bool {
	if n := len(s.GetFrames()); n == 0 || n > engine.MaxProfileDepth || s.GetInstructions() == 0 {
		return false
	}
	for _, f := range s.GetFrames() {
		if uint64(f) >= uint64(frames) {
			return false
		}
	}
	return true
}

// builtinText returns a name without what a terminal, or a browser, would not print as it is.
func builtinText(name string) string {
	name = strings.ToValidUTF8(name[:min(len(name), maxBuiltin)], "")
	return strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return '?'
		}
		return r
	}, name)
}

func line(n int32) int32 { return min(max(n, 0), maxLine) }

func summaryOf(m *eventv1.ProfileSummary) *eventv1.ProfileSummary {
	took := min(max(m.GetTook().AsDuration(), 0), maxDuration+time.Second)
	return &eventv1.ProfileSummary{Took: durationpb.New(took), OtherCalls: min(m.GetOtherCalls(), maxCount)}
}
