package registry

import (
	"github.com/scriptorium-dev/scriptorium/script"
)

// Steering is what somebody wants to become of a candidate.
type Steering string

// The steerings.
const (
	Promote Steering = "promote" // it is live everywhere at once, whatever its tests and steps
	Abort   Steering = "abort"   // it is given up: what was active before runs everywhere
	Retry   Steering = "retry"   // it is tested anew, and goes through its steps again
	Approve Steering = "approve" // it may go on after its step, or after a pause
)

// change is what the steering is in the history.
func (s Steering) change() script.Change {
	switch s {
	case Abort:
		return script.ChangeAbort
	case Retry:
		return script.ChangeRetry
	case Approve:
		return script.ChangeApprove
	}
	return script.ChangePromote
}

// SteerRequest asks for a change of a candidate's way.
type SteerRequest struct {
	Write
	Steering Steering
	// Version, if not 0, is the candidate that is meant. It is a Conflict if another one
	// has taken its place.
	Version uint64
	// Step, if not 0, is the one that is meant by an approval. It is a Conflict if the candidate is
	// in another one.
	Step int
}

// Move is the next thing that becomes of a candidate by its plan. One of Begin, Step, Running,
// Lost, Counted, Paused, Promote and Failed is set.
type Move struct {
	// Begin: the freeze is over that it waited for.
	Begin bool
	// Step of the plan that begins, from 1, on the agents below Threshold: as
	// script.Candidate has it, or the Selection of a step with a selector.
	Step      int
	Threshold uint32
	// Running: the agents of the step run it, so that its pause begins.
	Running bool
	// Lost is an agent that ended, or is not heard any more, while it was to run it.
	Lost string
	// Counted: more of its calls were counted by processes that have ended since.
	Counted bool
	// Paused says why it stays in its step until a person decides.
	Paused string
	// Promote: it has passed everything, and is live everywhere.
	Promote bool
	// Failed says why it is given up.
	Failed string
}

// Change is what the move is in the history: ChangeAdvance, ChangePromote or ChangeAbort.
func (m Move) Change() script.Change {
	switch {
	case m.Promote:
		return script.ChangePromote
	case m.Failed != "":
		return script.ChangeAbort
	}
	return script.ChangeAdvance
}

// AdvanceRequest asks for a Move, on behalf of the registry itself: no owner is in its
// way. It is a Conflict if the release is not at the revision any more.
type AdvanceRequest struct {
	Name script.Name
	At   script.Revision
	Move Move
	// Calls and FailedCalls of processes of agents that have ended, and AllCalls of all agents.
	Calls, FailedCalls, AllCalls uint64
	// Evidence is what the move follows from, for the history.
	Evidence string
}
