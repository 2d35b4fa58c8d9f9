// Package worker gives isolated tenants a process of their own: it
// starts one for each, confined, hands it the tenant's sockets and what is live of the
// tenant, forwards calls that come to the shared sockets, and puts another in its
// place when it dies. It runs on Linux; elsewhere such tenants' calls are refused.
//
// What is live in such a process is what is live in the agent's tables: a new process
// starts from all of it, and gets each change before that is live in the agent.
// The process is not believed in anything but what concerns its tenant.
package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/callstats"
	"github.com/scriptorium-dev/scriptorium/agent/calltrace"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Node is what of the agent its tenants' processes need.
type Node struct {
	// Agent is the agent, which decides what of candidates runs here.
	Agent   script.Agent
	Table   *cache.Table
	Values  *cache.Values
	Tenants *cache.Tenants
	// Content returns a source or the content of a value, wherever it has to come from.
	Content func(ctx context.Context, d script.Digest) ([]byte, error)
	// OnError is what gateways get if the script, or the version of it, that ref names makes no
	// decision; nil for the default. What a process says of it would not survive the process.
	OnError func(ctx context.Context, ref string) script.OnError
	// Position says how far the agent has come.
	Position func(now time.Time) gateway.Position
	// Publishers says whose signatures retained versions need; nil asks for none.
	Publishers *publisher.Roots
}

// Config of a Pool.
type Config struct {
	Node Node
	// Command are the arguments with which this executable calls inside.Run. Without any
	// there are no processes, and calls of tenants that ask for one are refused.
	Command []string
	// Dir is the folder of the tenants' own sockets: each has them in the folder of its
	// name.
	Dir string
	// Access holds the rules for callers, as gateway.ParseAccess reads them.
	Access []string
	// Groups are those of the sockets of some tenants. Who is in the group may use them, whatever the
	// rules say.
	Groups map[string]int
	// Isolated is called before a tenant's process takes its sockets, and after it has given them up. It
	// may be nil.
	Isolated func(tenant string, isolated bool)
	// MaxWaiting calls of a tenant wait for their turn; 0 means 1024.
	MaxWaiting int
	// Spares are processes that are kept ready as long as some tenant has one; 0 means as
	// many as there are such tenants, up to 4.
	Spares int
	// Users that processes run as if the agent is root; none means DefaultUsers.
	Users Users
	// Cgroup is a folder of cgroup v2 that is delegated to the agent and has no process
	// in it; "" means the one that systemd delegates, if there is one. Without any,
	// limits of the process itself hold instead.
	Cgroup string
	// Quarantine says when a script is kept from running.
	Quarantine QuarantinePolicy

	// Observers see the calls that no process has run.
	Observers []execute.Observer
	// Records takes the records of calls; nil if nobody does.
	Records *decisionlog.Recorder
	// Host takes what scripts log; nil if nobody does.
	Host engine.Host
	// Calls gets what processes count of their calls; nil if nobody does.
	Calls *callstats.Stats
	// MetricScripts of each process have metrics of their own there, and with ClassicHistograms classic buckets.
	MetricScripts     int
	ClassicHistograms bool
	// Traces makes the spans of calls; nil if nobody does.
	Traces *calltrace.Tracer
	// Changed is called when what Quarantined returns has changed, and when a process has caught up
	// with what Lags returns, from any goroutine.
	Changed func()

	Log     *slog.Logger          // nil means slog.Default()
	Metrics prometheus.Registerer // may be nil
}

// QuarantinePolicy says when a script that kills its tenant's process is kept from
// running, and for how long. Zero fields mean their defaults.
type QuarantinePolicy struct {
	Deaths int           // of the process while the script ran; 3
	Within time.Duration // of each other; a minute
	For    time.Duration // 10 minutes
}

func (q QuarantinePolicy) withDefaults() QuarantinePolicy {
	if q.Deaths == 0 {
		q.Deaths = 3
	}
	if q.Within == 0 {
		q.Within = time.Minute
	}
	if q.For == 0 {
		q.For = 10 * time.Minute
	}
	return q
}

// Quarantined is a script that is kept from running on this agent.
type Quarantined struct {
	Script   script.Name
	Revision script.Revision // of the release that killed the process
	Since    time.Time
	Until    time.Time
	Err      *script.Error // what its callers get
}

// Status of one tenant's process.
type Status struct {
	Tenant string
	PID    int   // 0 while there is none
	Memory int64 // bytes that are resident
}

func (c Config) withDefaults() Config {
	if c.MaxWaiting == 0 {
		c.MaxWaiting = 1024
	}
	if c.Users == (Users{}) {
		c.Users = DefaultUsers
	}
	if c.Changed == nil {
		c.Changed = func() {}
	}
	if c.Isolated == nil {
		c.Isolated = func(string, bool) {}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Quarantine = c.Quarantine.withDefaults()
	return c
}
