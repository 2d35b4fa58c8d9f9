package profile

import (
	"iter"

	"github.com/scriptorium-dev/scriptorium/engine"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
)

// partBytes is about how large a message with a part of a profile gets.
const partBytes = 48 << 10

// Parts yields messages that together say what the profile has found. Each has the frames that its
// stacks refer to.
func (r *Result) Parts() iter.Seq[*eventv1.ScriptProfile] {
	return func(yield func(*eventv1.ScriptProfile) bool) {
		for i := range r.Versions {
			if !r.Versions[i].parts(yield) {
				return
			}
		}
	}
}

func (v *Version) parts(yield func(*eventv1.ScriptProfile) bool) bool {
	m := &eventv1.ScriptProfile{Version: v.Number, Calls: v.Calls, MissedInstructions: v.Missed}
	bytes, frames := 0, map[engine.Frame]uint32{}
	for _, s := range v.Stacks {
		if bytes > partBytes {
			if !yield(m) {
				return false
			}
			m = &eventv1.ScriptProfile{Version: v.Number}
			bytes, frames = 0, map[engine.Frame]uint32{}
		}
		stack := &eventv1.ProfileStack{Instructions: s.Instructions, Frames: make([]uint32, len(s.Frames))}
		for i, f := range s.Frames {
			n, ok := frames[f]
			if !ok {
				n = uint32(len(frames)) //nolint:gosec // of few more than maxFrames
				frames[f] = n
				m.Frames = append(m.Frames, &eventv1.ProfileFrame{Builtin: f.Builtin, Function: f.Function, Line: f.Line})
				bytes += 16 + len(f.Builtin)
			}
			stack.Frames[i] = n
		}
		m.Stacks = append(m.Stacks, stack)
		bytes += 16 + 2*len(s.Frames)
	}
	return yield(m)
}
