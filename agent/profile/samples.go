package profile

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
)

// version gets the samples of the calls of one version.
type version struct {
	profile *Running
	number  uint64
	at      uint32 // in the profile
	calls   atomic.Uint64
	missed  atomic.Uint64 // instructions of samples that came while another was taken in
}

// of returns what the samples of a call of the version go to.
func (r *Running) of(number uint64) engine.Profiler {
	v := r.version(number)
	if v == nil {
		r.others.Add(1)
		return nil
	}
	v.calls.Add(1)
	return v
}

func (r *Running) version(number uint64) *version {
	for {
		versions := r.versions.Load()
		var known []*version
		if versions != nil {
			known = *versions
		}
		for _, v := range known {
			if v.number == number {
				return v
			}
		}
		if len(known) == maxVersions {
			return nil
		}
		v := &version{profile: r, number: number, at: uint32(len(known))} //nolint:gosec // of maxVersions
		all := append(slices.Clone(known), v)
		if r.versions.CompareAndSwap(versions, &all) {
			return v
		}
	}
}

var _ engine.Profiler = (*version)(nil)

// Sample implements engine.Profiler. No call waits for another: a sample that comes while another is
// taken in counts without its stack.
func (v *version) Sample(stack []engine.Frame, instructions uint64) {
	r := v.profile
	if !r.mu.TryLock() {
		v.missed.Add(instructions)
		return
	}
	defer r.mu.Unlock()
	if r.over {
		return
	}
	var room [4 * (1 + engine.MaxProfileDepth)]byte
	key := binary.BigEndian.AppendUint32(room[:0], v.at)
	for _, f := range stack[:min(len(stack), engine.MaxProfileDepth)] {
		key = binary.BigEndian.AppendUint32(key, r.frame(f))
	}
	sum := r.stacks[string(key)]
	if sum == nil && len(r.stacks) >= maxStacks {
		key = binary.BigEndian.AppendUint32(key[:4], r.number(engine.Frame{Builtin: otherStacks}))
		sum = r.stacks[string(key)]
	}
	if sum == nil {
		sum = new(uint64)
		r.stacks[string(key)] = sum
	}
	*sum += instructions
}

// frame returns the number of a frame, or of what stands for those that there is no room for.
func (r *Running) frame(f engine.Frame) uint32 {
	if n, ok := r.frames[f]; ok {
		return n
	}
	if len(f.Builtin) > maxBuiltin {
		f.Builtin = f.Builtin[:maxBuiltin]
	}
	if len(r.frames) >= maxFrames {
		f = engine.Frame{Builtin: otherFrames}
	}
	return r.number(f)
}

func (r *Running) number(f engine.Frame) uint32 {
	n, ok := r.frames[f]
	if !ok {
		n = uint32(len(r.numbered)) //nolint:gosec // of few more than maxFrames
		f.Builtin = strings.Clone(f.Builtin)
		r.frames[f] = n
		r.numbered = append(r.numbered, f)
	}
	return n
}

// Result is what a profile has found.
type Result struct {
	Took time.Duration
	// Versions that were called, in the order of their numbers.
	Versions []Version
	// OtherCalls are of further versions.
	OtherCalls uint64
}

// Version is where calls of one version spent their instructions.
type Version struct {
	Number uint64
	Calls  uint64
	// Missed instructions have no stack: too many samples came at a time.
	Missed uint64
	// Stacks, those with most instructions first.
	Stacks []Stack
}

// Stack is where calls were, the innermost function first.
type Stack struct {
	Frames       []engine.Frame
	Instructions uint64
}

// result ends the profile.
func (r *Running) result() Result {
	r.mu.Lock()
	r.over = true // nobody changes the rest from here on
	r.mu.Unlock()
	result := Result{Took: min(time.Since(r.started), r.spec.Duration), OtherCalls: r.others.Load()}
	if versions := r.versions.Load(); versions != nil {
		for _, v := range *versions {
			result.Versions = append(result.Versions, Version{Number: v.number, Calls: v.calls.Load(), Missed: v.missed.Load()})
		}
	}
	for key, instructions := range r.stacks {
		words := []byte(key)
		v := &result.Versions[binary.BigEndian.Uint32(words)]
		stack := Stack{Instructions: *instructions}
		for words = words[4:]; len(words) > 0; words = words[4:] {
			stack.Frames = append(stack.Frames, r.numbered[binary.BigEndian.Uint32(words)])
		}
		v.Stacks = append(v.Stacks, stack)
	}
	for i := range result.Versions {
		slices.SortFunc(result.Versions[i].Stacks, func(a, b Stack) int { return cmp.Compare(b.Instructions, a.Instructions) })
	}
	slices.SortFunc(result.Versions, func(a, b Version) int { return cmp.Compare(a.Number, b.Number) })
	return result
}
