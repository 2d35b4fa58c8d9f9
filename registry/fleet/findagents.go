package fleet

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// AgentSearch says which agents to find, and in which order.
type AgentSearch struct {
	// Name selects one agent, which is returned with all of its failures. Empty selects any agent.
	Name string
	// Words, in lower case, each of which the name, the software, or a label's key, value or "key=value" has.
	Words []string
	State AgentState
	Order AgentOrder
	// Descending is the other way round. Agents that are equal stay in the order of their names.
	Descending bool
	Offset     int
	Limit      int
	Caller     string // as in Filter
}

// AgentState is what an agent is like.
type AgentState int

// The states. An agent can be in several.
const (
	AnyAgent AgentState = iota
	TroubledAgent
	UnknownAgent
	BehindAgent
	FailingAgent
	HeldAgent
	ForeignAgent
	FleetAgent // of this fleet
	QuarantinedAgent
	DiskAgent // its disk cannot be written
)

// AgentOrder is how agents are sorted.
type AgentOrder int

// The orders.
const (
	AgentsByName AgentOrder = iota
	AgentsByLag             // of those that are unknown, by how long they are unheard
	AgentsBySoftware
	AgentsByFailed
)

// FoundAgents is a window of the agents that were found.
type FoundAgents struct {
	Fleet              string
	Head               script.Revision
	Connected, Unknown int // of the fleet, whatever was looked for
	Agents             []Agent
	Total              int // all that were found
}

// sketch is what a search needs to know of an agent.
type sketch struct {
	name, software string
	labels         map[string]string
	lag            time.Duration
	failed         int

	foreign, unknown, behind, held, quarantined, disk bool
}

// agentsAtOnce is how many agents a search looks at while the fleet is locked.
const agentsAtOnce = 256

// FindAgents searches agents. It locks the fleet for a short time at once, so that what it finds may change meanwhile.
func (f *Fleet) FindAgents(ctx context.Context, s AgentSearch) (found FoundAgents, err error) {
	err = f.search(ctx, s.Caller, func() error {
		matched, err := f.findAgents(ctx, &s)
		if err == nil {
			found = f.agentsNow(s.window(matched), s.Name != "")
			found.Total = len(matched)
		}
		return err
	})
	return found, err
}

// findAgents returns what matches, in the order of the names.
func (f *Fleet) findAgents(ctx context.Context, s *AgentSearch) ([]sketch, error) {
	var matched []sketch
	take := func(some []sketch) {
		for i := range some {
			if s.matches(&some[i]) {
				matched = append(matched, some[i])
			}
		}
	}
	if s.Name != "" {
		take(f.sketchesOf(s.Name))
		return matched, nil
	}
	looks, after, some := lookout{fleet: f, left: mostLooked, known: map[place]time.Time{}}, "", []sketch(nil)
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return nil, script.Errorf(script.Unavailable, "", "the search did not end: %w", err)
		}
		some, after, more = f.sketches(&looks, after, some[:0])
		take(some)
	}
	own := len(matched)
	if take(f.foreigners()); len(matched) > own {
		slices.SortFunc(matched, func(a, b sketch) int { return strings.Compare(a.name, b.name) })
	}
	return matched, nil
}

// agentsNow describes the agents as they are now, one by one; whole: with all failures.
func (f *Fleet) agentsNow(rows []sketch, whole bool) (found FoundAgents) {
	known := map[place]lag{}
	for i := range rows {
		f.mu.Lock()
		all := lags{fleet: f, now: f.now(), known: known}
		a, here := f.agents[rows[i].name]
		if _, foreign := f.foreign[rows[i].name]; here || foreign {
			one := all.listed(rows[i].name)
			if whole && here && one.Fleet == "" {
				one.Failures = f.allFailures(a)
			}
			found.Agents = append(found.Agents, one)
		}
		f.mu.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	found.Fleet, found.Head, found.Connected, found.Unknown = f.id, f.head, f.connected, len(f.agents)-f.connected
	return found
}

// lookout finds out how far agents are behind, as Troubled does.
type lookout struct {
	fleet *Fleet
	left  int
	known map[place]time.Time
}

// oldest is when the first change was committed that the agent lacks; zero if it lacks none.
func (l *lookout) oldest(a *agent) time.Time {
	at := place{a.group, a.report.Activated}
	oldest, ok := l.known[at]
	if !ok {
		oldest = l.fleet.order.first(at.revision, a.group.selector, &l.left)
		if l.left >= 0 {
			l.known[at] = oldest
		}
	}
	return oldest
}

// sketches appends the sketches of the fleet's next agents after the name, in order, and returns the last name. more:
// others may follow.
func (f *Fleet) sketches(looks *lookout, after string, some []sketch) (_ []sketch, last string, more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, found := f.named(after)
	if found {
		at++
	}
	next := f.byName[at:min(len(f.byName), at+agentsAtOnce)]
	looks.left = mostLooked
	for _, slot := range next {
		a := f.bySlot[slot]
		after = a.report.Agent
		if other, ok := f.foreign[after]; !ok || !a.heard.Before(other.heard) {
			some = append(some, f.sketch(a, looks))
		}
	}
	return some, after, at+len(next) < len(f.byName)
}

func (f *Fleet) sketch(a *agent, looks *lookout) sketch {
	r := &a.report
	s := sketch{
		name: r.Agent, software: r.Software, labels: r.Labels, failed: len(a.failures),
		unknown: a.unknown, held: r.Held != "", disk: r.Disk.fails(), quarantined: a.quarantined() > 0,
	}
	for range f.unaudited(a) {
		s.failed++
	}
	if a.unknown {
		s.lag = max(0, f.now().Sub(a.heard))
	} else if oldest := looks.oldest(a); !oldest.IsZero() {
		s.behind, s.lag = true, max(0, f.now().Sub(oldest))
	}
	return s
}

// foreigners returns the agents that belong to another fleet now.
func (f *Fleet) foreigners() (list []sketch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, other := range f.foreign {
		if own := f.agents[name]; own == nil || own.heard.Before(other.heard) {
			list = append(list, other.sketch())
		}
	}
	return list
}

func (o *foreigner) sketch() sketch {
	a := &o.agent
	return sketch{name: a.Name, software: a.Software, labels: a.Labels, foreign: true, disk: a.Disk.fails()}
}

// sketchesOf returns the sketch of one agent, or none if the agent is not known.
func (f *Fleet) sketchesOf(name string) []sketch {
	f.mu.Lock()
	defer f.mu.Unlock()
	own, other := f.agents[name], f.foreign[name]
	switch {
	case own != nil && !own.heard.Before(other.heard):
		return []sketch{f.sketch(own, &lookout{fleet: f, left: mostLooked, known: map[place]time.Time{}})}
	case other.agent.Name != "":
		return []sketch{other.sketch()}
	}
	return nil
}

// quarantined counts the scripts that the agent does not run any more.
func (a *agent) quarantined() (n int) {
	for _, failure := range a.failures {
		if failure.Err.Kind == script.Unavailable && failure.Err.Field == quarantined {
			n++
		}
	}
	return n
}

func (s *AgentSearch) matches(a *sketch) bool {
	in := true
	switch s.State {
	case TroubledAgent:
		in = a.foreign || a.held || a.unknown || a.behind || a.failed > 0 || a.disk
	case UnknownAgent:
		in = a.unknown
	case BehindAgent:
		in = a.behind
	case FailingAgent:
		in = a.failed > 0
	case HeldAgent:
		in = a.held
	case ForeignAgent:
		in = a.foreign
	case FleetAgent:
		in = !a.foreign
	case QuarantinedAgent:
		in = a.quarantined
	case DiskAgent:
		in = a.disk
	}
	return in && !slices.ContainsFunc(s.Words, func(word string) bool { return !a.has(word) })
}

func (s *sketch) has(word string) bool {
	if strings.Contains(strings.ToLower(s.name), word) || strings.Contains(strings.ToLower(s.software), word) {
		return true
	}
	wantKey, wantValue, both := strings.Cut(word, "=")
	for key, value := range s.labels {
		key, value := strings.ToLower(key), strings.ToLower(value)
		if strings.Contains(key, word) || strings.Contains(value, word) || both && strings.HasSuffix(key, wantKey) && strings.HasPrefix(value, wantValue) {
			return true
		}
	}
	return false
}

// window returns the part that was asked for of those that were found, which are in the order of their names.
func (s *AgentSearch) window(found []sketch) []sketch {
	order, from := s.sorted(found), min(s.Offset, len(found))
	rows := make([]sketch, 0, min(s.Limit, len(found)-from))
	for place := from; len(rows) < cap(rows); place++ {
		rows = append(rows, found[order[place]])
	}
	return rows
}

// sorted returns which of those that were found is at which place.
func (s *AgentSearch) sorted(found []sketch) []int {
	order := make([]int, len(found))
	for i := range order {
		order[i] = i
	}
	var by func(a, b *sketch) int
	switch s.Order {
	case AgentsByName:
		if s.Descending {
			slices.Reverse(order)
		}
		return order
	case AgentsByLag:
		by = func(a, b *sketch) int { return cmp.Compare(a.lag, b.lag) }
	case AgentsBySoftware:
		by = func(a, b *sketch) int { return strings.Compare(a.software, b.software) }
	default:
		by = func(a, b *sketch) int { return cmp.Compare(a.failed, b.failed) }
	}
	sign := 1
	if s.Descending {
		sign = -1
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Or(sign*by(&found[i], &found[j]), cmp.Compare(i, j)) })
	return order
}
