package fleet

import (
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// GateResult is what a gate says.
type GateResult string

// The results.
const (
	GatePasses GateResult = "pass"
	GateWaits  GateResult = "wait"  // it says that the step does not pass, so far
	GateAborts GateResult = "abort" // it wants the candidate to be given up
	GateFails  GateResult = "error" // it says nothing that counts
)

// Says reports whether it is an answer at all.
func (r GateResult) Says() bool { return r != GateFails }

// GateAnswer is the last that the gate of a step said. It counts for nothing in another step, or
// attempt.
type GateAnswer struct {
	Attempt uint64
	Step    int
	At      time.Time // when it was asked
	Result  GateResult
	Text    string // for people: what it says, or why that is nothing
	// Remembered: another replica has asked. It is for people alone.
	Remembered bool
}

// same reports whether the answers say the same.
func (a *GateAnswer) same(b *GateAnswer) bool {
	return a.Attempt == b.Attempt && a.Step == b.Step && a.Result == b.Result && a.Text == b.Text
}

// GateAnswered says what the gate of the script's candidate has answered to this replica. An answer
// that is for another step or attempt than the candidate's counts for nothing.
func (f *Fleet) GateAnswered(name script.Name, a GateAnswer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, p := f.candidacies[name], f.scripts[name]
	if c == nil || c.attempt != a.Attempt || p.release.Candidate.Step != a.Step {
		return
	}
	last := c.gate
	c.gate = &a
	if last == nil || a.Result == GatePasses || !last.same(&a) {
		f.touch()
	}
	if known, ok := f.memory.gates.known[name]; !ok || !known.same(&a) {
		f.noteGate(name)
	}
}

// ownGate is how long after its request an answer to this replica hides those to others.
const ownGate = 2 * time.Minute

// gateOf returns the last answer of a gate in the candidacy, which is in the step; nil if there is
// none.
func (f *Fleet) gateOf(c *candidacy, step int) *GateAnswer {
	known, ok := f.memory.gates.known[c.name]
	if !ok || known.Attempt != c.attempt || known.Step != step {
		return c.gate
	}
	if c.gate != nil && c.gate.Step == step && f.now().Sub(c.gate.At) < ownGate {
		return c.gate
	}
	known.Remembered = true
	return &known
}

// gateMemory is what the Memory has of gates, and what is noted that it does not have yet.
type gateMemory struct {
	known  map[script.Name]GateAnswer
	stored map[script.Name]time.Time // when this replica stored it last
	noted  map[script.Name]time.Time
}

func newGateMemory() gateMemory {
	return gateMemory{known: map[script.Name]GateAnswer{}, stored: map[script.Name]time.Time{}, noted: map[script.Name]time.Time{}}
}

// noteGate says that the memory of the gate may have to change.
func (f *Fleet) noteGate(name script.Name) {
	if _, ok := f.memory.gates.noted[name]; !ok {
		f.memory.gates.noted[name] = f.now()
		f.memory.wake()
	}
}

// gateMemo returns the memo to store of the gate, if there is one.
func (f *Fleet) gateMemo(name script.Name) (Memo, bool) {
	known, ok := f.memory.gates.known[name]
	c := f.candidacies[name]
	switch {
	case ok && (c == nil || c.attempt != known.Attempt && c.gate == nil):
		return Memo{Script: name, Gate: &GateAnswer{}, Gone: true}, true
	case c == nil || c.gate == nil || ok && known.same(c.gate):
		return Memo{}, false
	}
	return Memo{Script: name, Gate: c.gate}, true
}

// gateNotes appends the notes on gates that are due, if the store takes any now.
func (f *Fleet) gateNotes(memos []Memo, due time.Time) []Memo {
	mem, now := &f.memory, f.now()
	if mem.budget <= 0 {
		return memos
	}
	tooSoon := func(m *Memo) bool { return !m.Gone && now.Sub(mem.gates.stored[m.Script]) < memoApart }
	others := len(memos)
	memos = takeNotes(memos, mem.gates.noted, due, f.gateMemo, tooSoon)
	for i := range memos[others:] {
		m := &memos[others+i]
		mem.budget -= float64(128 + len(m.Gate.Text))
		mem.gates.stored[m.Script] = now
		if m.Gone {
			delete(mem.gates.stored, m.Script)
		}
	}
	return memos
}

// keepGate notes what the Memory has.
func (f *Fleet) keepGate(memo *Memo) {
	known := f.memory.gates.known
	if memo.Gone {
		delete(known, memo.Script)
		return
	}
	known[memo.Script] = *memo.Gate
	if c := f.candidacies[memo.Script]; c == nil || c.attempt != memo.Gate.Attempt {
		f.noteGate(memo.Script) // it is over
	}
	f.touch()
}
