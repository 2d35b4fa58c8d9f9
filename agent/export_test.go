package agent

import (
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
)

// CatchUpWithin is CatchUp with another patience.
func (a *Agent) CatchUpWithin(patience time.Duration) { a.catchUp(patience) }

// Table returns the live releases, for tests to spoil.
func (a *Agent) Table() *cache.Table { return a.state.table }

// Observe has the observer told of what is committed. It is called before Run.
func (a *Agent) Observe(o observer) { a.state.observer = o }

// Troubled is what the status tells of a script that is in quarantine.
var Troubled = troubled

// InOrder is what the status tells of candidates.
var InOrder = inOrder
