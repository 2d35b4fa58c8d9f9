// Package sight is what a gateway pod of the end-to-end tests saw, and how it tells:
// each answer that differs from the one before, with the time by the node's own
// clock, so that nobody's way to the pod is in the figures.
package sight

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// File is the name of the watched file among what was seen; all other names are
// those of scripts.
const File = "file"

// State is what there was to see of a script or of the file.
type State struct {
	// Content is what the script answered, as text, or what is in the file.
	Content string `json:"content,omitempty"`
	// Version of the script that answered; 0 for the file, for failures, and where calls
	// do not tell it. Then versions that answer the same are one state.
	Version uint64 `json:"version,omitempty"`
	// Failure is the kind of error that calls end with; empty if they are answered.
	Failure string `json:"failure,omitempty"`
}

// Sight is the first time that something was in a state which it was not in before.
type Sight struct {
	Of string `json:"of"` // a script, as "tenant/name", or File
	State
	At time.Time `json:"at"` // when the answer was there
}

// Calls counts the calls of a script since the pod started.
type Calls struct {
	Answered uint64            `json:"answered"`
	Failed   map[string]uint64 `json:"failed,omitempty"` // by kind
	LastErr  string            `json:"lastError,omitempty"`
	Longest  time.Duration     `json:"longest"` // of the answered ones, in nanoseconds
}

// Report is what a pod tells.
type Report struct {
	Node   string           `json:"node"`
	Now    time.Time        `json:"now"` // by the node's clock
	Calls  map[string]Calls `json:"calls,omitempty"`
	Sights []Sight          `json:"sights,omitempty"` // from the one that was asked for
	Next   int              `json:"next"`             // to ask for next
}

// Log remembers sights and counts calls. It is safe for concurrent use.
type Log struct {
	node string

	mu      sync.Mutex
	calls   map[string]*Calls
	sights  []Sight
	last    map[string]State
	changed chan struct{} // closed, and replaced, with each sight
}

// NewLog returns an empty Log of the node.
func NewLog(node string) *Log {
	return &Log{node: node, calls: map[string]*Calls{}, last: map[string]State{}, changed: make(chan struct{})}
}

// See notes the state if it is not the last one that was noted.
func (l *Log) See(of string, state State, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, ok := l.last[of]; ok && last == state {
		return
	}
	l.last[of] = state
	l.sights = append(l.sights, Sight{Of: of, State: state, At: at})
	close(l.changed)
	l.changed = make(chan struct{})
}

// Answered counts a call that was answered.
func (l *Log) Answered(of string, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.callsOf(of)
	c.Answered++
	c.Longest = max(c.Longest, took)
}

// Failed counts a call that was not.
func (l *Log) Failed(of, kind, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.callsOf(of)
	c.Failed[kind]++
	c.LastErr = message
}

func (l *Log) callsOf(of string) *Calls {
	c := l.calls[of]
	if c == nil {
		c = &Calls{Failed: map[string]uint64{}}
		l.calls[of] = c
	}
	return c
}

// ServeHTTP tells, as JSON, a Report with the sights from number "from" on. If there
// are none yet it waits for one, for as long as "wait" says, such as 5s.
func (l *Log) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from, err := strconv.Atoi(orZero(r.FormValue("from")))
	if err != nil || from < 0 {
		http.Error(w, "from must be a number of sights", http.StatusBadRequest)
		return
	}
	wait, err := time.ParseDuration(orZero(r.FormValue("wait")))
	if err != nil {
		http.Error(w, "wait must be a duration, such as 5s", http.StatusBadRequest)
		return
	}
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	select {
	case <-l.reached(from):
	case <-timeout.C:
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(l.report(from)) // the reader is gone: nobody is left to tell
}

func orZero(s string) string {
	if s == "" {
		return "0"
	}
	return s
}

// reached returns a channel that is closed once there are more than from sights.
func (l *Log) reached(from int) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.sights) <= from {
		return l.changed
	}
	now := make(chan struct{})
	close(now)
	return now
}

func (l *Log) report(from int) Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := Report{Node: l.node, Calls: make(map[string]Calls, len(l.calls)), Next: len(l.sights)}
	for of, c := range l.calls {
		copied := *c
		copied.Failed = maps.Clone(c.Failed)
		r.Calls[of] = copied
	}
	if from < len(l.sights) {
		r.Sights = append(r.Sights, l.sights[from:]...)
	}
	r.Now = time.Now()
	return r
}
