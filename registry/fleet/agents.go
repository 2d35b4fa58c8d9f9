package fleet

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// AgentFilter says which agents to list.
type AgentFilter struct {
	After string // the agent with this name, alone; the empty name begins
	Limit int    // at most so many; none if 0
	// Troubled: those alone that failed or run behind, are unknown, hold removals
	// back, or belong to another fleet.
	Troubled bool
	Caller   string // as in Filter
}

// Agents is some of the fleet's agents, at one moment.
type Agents struct {
	Fleet  string
	Head   script.Revision
	Agents []Agent // by name
	More   bool    // there are more than the limit
}

// Agent is one agent, as it last reported.
type Agent struct {
	Name       string
	Fleet      string            // the other fleet that the agent belongs to; "" for this one
	Labels     map[string]string // not to be changed
	Software   string
	Activated  script.Revision
	Unknown    bool // unheard for too long: what it runs is not known
	UnheardFor time.Duration
	// Behind is the number of releases, and other objects that changed lately, above
	// Activated that it follows, and Lag the time since the oldest of them was committed.
	Behind   int
	Lag      time.Duration
	Failures []Failure // at most MaxAgentFailures, by the scripts' names
	Failed   int       // all of them
	Tenants  script.Selector
	DiskKeys []string // not to be changed
	Drifts   uint64
	Held     string // as in Report
	Disk     *Disk  // as in Report
	// Quarantined lists the failures of scripts that the agent does not run any more.
	Quarantined int
	Lagging     int // tenants whose process there lacks changes
}

// MaxAgentFailures is how many failures an Agent names.
const MaxAgentFailures = 10

// Agents lists agents by name.
func (f *Fleet) Agents(filter AgentFilter) Agents {
	list, _ := f.AgentsFor(context.Background(), filter) // which does not end
	return list
}

// AgentsFor returns what Agents does, unless ctx ends before it is the caller's turn.
func (f *Fleet) AgentsFor(ctx context.Context, filter AgentFilter) (list Agents, err error) {
	err = f.read(ctx, filter.Caller, func() { list = f.list(&filter) })
	return list, err
}

func (f *Fleet) list(filter *AgentFilter) Agents {
	names := slices.AppendSeq(slices.Collect(maps.Keys(f.agents)), maps.Keys(f.foreign))
	names = slices.DeleteFunc(names, func(name string) bool { return name <= filter.After })
	slices.Sort(names)
	names = slices.Compact(names)
	list := Agents{Fleet: f.id, Head: f.head}
	lags := lags{fleet: f, now: f.now(), known: map[place]lag{}}
	for _, name := range names {
		a := lags.listed(name)
		if filter.Troubled && a.Fleet == "" && a.Held == "" && !a.Unknown && a.Behind == 0 && a.Failed == 0 {
			continue
		}
		if filter.Limit > 0 && len(list.Agents) == filter.Limit {
			list.More = true
			break
		}
		list.Agents = append(list.Agents, a)
	}
	return list
}

// lags finds out how far agents are behind; once for all that are at one place.
type lags struct {
	fleet *Fleet
	now   time.Time
	known map[place]lag
}

type place struct {
	group    *group
	revision script.Revision
}

type lag struct {
	behind int
	since  time.Duration
}

func (l *lags) of(p place) lag {
	if found, ok := l.known[p]; ok {
		return found
	}
	var found lag
	n, oldest := l.fleet.order.above(p.revision, p.group.selector)
	if n > 0 {
		found = lag{behind: n, since: max(0, l.now.Sub(oldest))}
	}
	l.known[p] = found
	return found
}

func (l *lags) describe(a *agent) Agent {
	r := &a.report
	var behind lag // of one that is unknown, nobody knows
	if !a.unknown {
		behind = l.of(place{a.group, r.Activated})
	}
	failures, failed := l.fleet.failuresOf(a)
	return Agent{
		Name: r.Agent, Labels: r.Labels, Software: r.Software, Activated: r.Activated,
		Unknown: a.unknown, UnheardFor: max(0, l.now.Sub(a.heard)),
		Behind: behind.behind, Lag: behind.since,
		Failures: failures, Failed: failed,
		Tenants: r.Tenants, DiskKeys: r.DiskKeys, Drifts: r.Drifts, Held: r.Held,
		Disk: r.Disk, Quarantined: a.quarantined(), Lagging: len(r.Lags),
	}
}
