package agent

import (
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/agent/logring"
)

// CatchUpWithin is CatchUp with another patience.
func (a *Agent) CatchUpWithin(patience time.Duration) { a.catchUp(patience) }

// Table returns the live releases, for tests to spoil.
func (a *Agent) Table() *cache.Table { return a.state.table }

// Observe makes the agent report its commits to the observer. Call it before Run.
func (a *Agent) Observe(o observer) { a.state.observer = o }

// Troubled is what the status tells of a script that is in quarantine.
var Troubled = troubled

// InOrder is what the status tells of candidates.
var InOrder = inOrder

// RecallDelay is the least time before each answer to a recall.
const RecallDelay = recallDelay

// Recall hands on a recall.
func (a *Agent) Recall(r follow.Recall) { a.recall(r) }

// RecallsThatWait returns how many wait for their answers.
func (a *Agent) RecallsThatWait() int { return len(a.recalls) }

// Logs are the lines that are kept for those who look later.
func (a *Agent) Logs() *logring.Ring { return a.logs }
