// Package history holds what was done to a fleet and what was seen of it during one
// schedule, and checks the promises of a fleet against that. It knows nothing of
// processes: it believes only what callers, writers and the registry have recorded.
package history

import (
	"time"
)

// Time is the time since the schedule began.
type Time = time.Duration

// Outcome is what a writer knows of its write.
type Outcome string

// The outcomes.
const (
	Acked   Outcome = "acked"   // the registry said that it is done
	Refused Outcome = "refused" // the registry said that it did not do it
	Unclear Outcome = "unclear" // there was no answer, or an error that leaves it open
)

// Write is one change that a writer wanted, whatever number of times it asked.
type Write struct {
	ID      string // the note that goes with it; unique
	Writer  string
	Script  string // "tenant/name"
	Change  string // as the registry's history calls it: "publish", "pin", …
	Version uint64 // asked for, where one is
	Digest  string // of a publish's source

	Start, End Time
	Attempts   int
	Outcome    Outcome
	Err        string

	// Of an acknowledged write, what the registry answered.
	Changed  bool
	Revision int64
	Active   uint64 // version
}

// Entry is a line of the registry's own history of a script.
type Entry struct {
	Script   string
	Revision int64
	Change   string
	Version  uint64
	Digest   string
	ID       string // the note: that of the Write
}

// State is how an agent answers for a script.
type State string

// The states.
const (
	Runs     State = "runs"     // a version
	Disabled State = "disabled" // answers that it is disabled
	Absent   State = "absent"   // answers that there is none
	Failed   State = "failed"   // does not answer, or with another error
)

// Sight is one answer of an agent, or the lack of one.
type Sight struct {
	Agent, Script string
	Via           string // the socket
	Start, End    Time   // of the call
	State         State
	Version       uint64
	Digest        string
	Proof         string // what the script itself returned: the ID of the write that published it
	Revision      int64  // of the release, where the socket says it; 0 elsewhere
	Err           string
}

// Claim is the registry's word that a release has converged on agents.
type Claim struct {
	Registry string
	Script   string
	Revision int64
	Agents   []string // those that it counts as connected
	Start    Time
	End      Time
}

// Report is the registry's word on what one agent has activated: every release of a
// revision up to Activated, but for the scripts in Failing.
type Report struct {
	Registry   string
	Agent      string
	Activated  int64
	Failing    []string
	Start, End Time
}

// Fault is something that was done to the fleet.
type Fault struct {
	Kind     string // "kill", "pause", "tear", …
	Target   string
	From, To Time // To is when it was undone, and an agent answered again
	Detail   string
}

// Final is what a registry says of a script in the end.
type Final struct {
	Registry string
	Script   string
	Revision int64
	Version  uint64
	Digest   string
	Enabled  bool
	Deleted  bool
	Err      string
}

// History is all of one schedule.
type History struct {
	Seed   uint64
	Agents []string
	// Scripts whose whole life is in the schedule, from before their first version.
	Scripts []string
	Writes  []Write
	Entries []Entry // all of the scripts', in any order
	Sights  []Sight
	Claims  []Claim
	Reports []Report
	Faults  []Fault
	Finals  []Final
	Crashes []string // processes that ended by themselves

	// Mended is when the faults had stopped and everyone served; Converged when every
	// agent ran what the registry says; Told, when every registry said so. 0 is never.
	Mended, Converged, Told Time
	// Bound is how long convergence may take.
	Bound time.Duration
}

// Violation is a broken promise, and what shows it.
type Violation struct {
	Promise  string
	What     string
	Timeline []string
}
