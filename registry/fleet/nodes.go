package fleet

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// NodesFilter says of which script's rollout Nodes are.
type NodesFilter struct {
	Script script.Name
	// Label is that by whose values the agents are grouped; all are in one group if empty.
	Label string
	// Agents is how many agents to describe, and Offset how many of those that are meant come before.
	Agents, Offset int
	// Group is the value that they have for the label; nil for any. State is their state; AnyNode for any.
	Group  *string
	State  NodeState
	Caller string // as in Filter
}

// NodeState is where an agent is with a release.
type NodeState uint8

// The states. An agent that follows the script is in one of them.
const (
	AnyNode       NodeState = iota
	NodeActive              // it has activated the release, and runs the active version, if there is one that may run
	NodePassed              // as before, and the candidate has passed its tests there
	NodeCandidate           // it runs the candidate, for all calls or for some
	NodeFailed              // it could not activate the release, or the candidate did not pass its tests there
	NodeWaiting             // it has yet to activate the release, to test the candidate, or to say that it runs it
	NodeUnknown             // it is unknown
	NodeLost                // as before, and it was to run the candidate, or to test it
	NodeStates              // is their number
)

// Nodes is how far a script has come on each agent.
type Nodes struct {
	Status              // of the script
	Groups  []NodeGroup // the largest, at most MaxNodeGroups, in the order of their values
	Others  NodeGroup   // the sum of
	OtherNo int         // so many others
	Agents  []Node      // by name
	Total   int         // all agents that are meant
	Lost    []string    // agents that are lost, as Candidacy has them
	// Compared is as in Candidacy.
	Compared *Comparison
}

// MaxNodeGroups is how many groups Nodes have.
const MaxNodeGroups = 200

// NodeGroup counts the agents that have the value for the label, by their states.
type NodeGroup struct {
	Value string
	Count [NodeStates]int // AnyNode counts all nodes
}

// Node is one agent.
type Node struct {
	Agent, Group       string
	State              NodeState
	Err                *script.Error // why it failed; nil otherwise
	Why                string        // what holds it up; "" if it is not waiting, or that is not known
	Activated          script.Revision
	Calls, FailedCalls uint64 // of the candidate there
}

// nodesInterval is the least time between two Nodes of one watch: each takes time by the number of agents.
const nodesInterval = 250 * time.Millisecond

// WatchNodes yields the nodes of the script's rollout at once, and again after changes of anything, at most four times a
// second, until ctx is done. They have no script if there is none.
func (f *Fleet) WatchNodes(ctx context.Context, filter NodesFilter) iter.Seq[Nodes] {
	return func(yield func(Nodes) bool) {
		watch := look{fleet: f, filter: &filter, labeling: labeling{label: filter.Label}}
		pace := time.NewTimer(0)
		defer pace.Stop()
		for {
			select {
			case <-pace.C:
			case <-ctx.Done():
				return
			}
			var changed <-chan struct{}
			var nodes Nodes
			if f.read(ctx, filter.Caller, func() { changed, nodes = f.wait(), watch.nodes() }) != nil {
				return
			}
			pace.Reset(nodesInterval)
			if !yield(nodes) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// labeling is the values that agents have for a label.
type labeling struct {
	label  string
	made   uint64   // is Fleet.labelings then
	values []string // the first one is for agents without the label
	of     []int32  // the places among them, by the agents' slots
}

// update takes in that agents have others now.
func (l *labeling) update(f *Fleet) {
	if l.of != nil && l.made == f.labelings {
		return
	}
	l.made, l.values, l.of = f.labelings, append(l.values[:0], ""), make([]int32, len(f.bySlot))
	known := map[string]int32{"": 0}
	for slot, a := range f.bySlot {
		if a == nil || l.label == "" {
			continue
		}
		value := a.report.Labels[l.label]
		at, ok := known[value]
		if !ok {
			at = int32(len(l.values)) //nolint:gosec // as many as agents
			known[value] = at
			l.values = append(l.values, value)
		}
		l.of[slot] = at
	}
}

// look is what a watch of nodes keeps from one look to the next.
type look struct {
	fleet  *Fleet
	filter *NodesFilter
	labeling
	states []NodeState // by the agents' slots
}

// nodes looks at the agents, with the fleet locked.
func (l *look) nodes() Nodes {
	f := l.fleet
	nodes := Nodes{Status: f.status(&Filter{Tenant: l.filter.Script.Tenant, Script: l.filter.Script.Script})}
	p := f.scripts[l.filter.Script]
	if p == nil {
		return nodes
	}
	c := f.candidacies[l.filter.Script]
	l.update(f)
	l.states = append(l.states[:0], make([]NodeState, len(f.bySlot))...)
	f.statesOf(p, c, l.states)
	if c != nil {
		nodes.Lost = f.losses(c, f.now())
		for _, name := range nodes.Lost {
			if a := f.agents[name]; a != nil && l.states[a.slot] == NodeUnknown {
				l.states[a.slot] = NodeLost
			}
		}
		if c.compared != nil {
			compared := c.compared.Comparison
			nodes.Compared = &compared
		}
	}
	l.count(&nodes)
	if l.filter.Agents > 0 {
		l.describe(&nodes, p, c)
	}
	return nodes
}

// statesOf finds out where the agents that follow the release are with it, by their slots. c is nil if the release has no
// candidate.
func (f *Fleet) statesOf(p *progress, c *candidacy, states []NodeState) {
	all, tenant := &survey{fleet: f}, p.release.Name.Tenant
	late, moving := all.late(p), c != nil && p.release.Candidate.Failed == "" && !p.release.Frozen()
	tests := moving && len(p.release.Candidate.Spec.Tests) > 0
	for slot := range all.followers(tenant).all {
		switch states[slot] = NodeActive; {
		case late.has(slot):
			states[slot] = NodeWaiting
		case moving:
			states[slot] = c.stateOf(slot, tests)
		}
	}
	for a, failed := range f.without(p) {
		if states[a.slot] = NodeWaiting; failed {
			states[a.slot] = NodeFailed
		}
	}
	if c != nil {
		for a := range c.failed {
			states[a.slot] = NodeFailed
		}
	}
	if len(f.agents) == f.connected {
		return
	}
	for slot, a := range f.bySlot {
		if a != nil && a.unknown && a.group.selector.Matches(tenant) {
			states[slot] = NodeUnknown
		}
	}
}

// stateOf is where an agent that activated the release is with a candidate on its way, which may have tests.
func (c *candidacy) stateOf(slot int, tests bool) NodeState {
	switch member := c.members.has(slot); {
	case member && c.heard.has(slot):
		return NodeCandidate
	case member || c.old.has(slot) || tests && !c.passed.has(slot):
		return NodeWaiting
	case tests:
		return NodePassed
	}
	return NodeActive
}

// count counts the agents by their groups and states.
func (l *look) count(nodes *Nodes) {
	groups := make([]NodeGroup, len(l.values))
	for slot, state := range l.states {
		if state != AnyNode {
			g := &groups[l.of[slot]]
			g.Count[state]++
			g.Count[AnyNode]++
		}
	}
	for i := range groups {
		groups[i].Value = l.values[i]
	}
	groups = slices.DeleteFunc(groups, func(g NodeGroup) bool { return g.Count[AnyNode] == 0 })
	byValue := func(a, b NodeGroup) int { return strings.Compare(a.Value, b.Value) }
	if len(groups) > MaxNodeGroups {
		slices.SortFunc(groups, func(a, b NodeGroup) int {
			return cmp.Or(cmp.Compare(b.Count[AnyNode], a.Count[AnyNode]), byValue(a, b))
		})
		for _, g := range groups[MaxNodeGroups:] {
			nodes.OtherNo++
			for state, n := range g.Count {
				nodes.Others.Count[state] += n
			}
		}
		groups = slices.Clone(groups[:MaxNodeGroups])
	}
	slices.SortFunc(groups, byValue)
	nodes.Groups = groups
}

// describe adds the agents that are meant.
func (l *look) describe(nodes *Nodes, p *progress, c *candidacy) {
	group := int32(-1)
	if l.filter.Group != nil {
		if group = int32(slices.Index(l.values, *l.filter.Group)); group < 0 { //nolint:gosec // as many as agents
			return
		}
	}
	for _, slot := range l.fleet.byName {
		state := l.states[slot]
		if state == AnyNode || l.filter.State != AnyNode && state != l.filter.State || group >= 0 && l.of[slot] != group {
			continue
		}
		if nodes.Total++; nodes.Total > l.filter.Offset && len(nodes.Agents) < l.filter.Agents {
			node := nodeOf(l.fleet.bySlot[slot], p, c)
			node.Group, node.State = l.values[l.of[slot]], state
			if state != NodeFailed {
				node.Err = nil
			}
			if state != NodeWaiting {
				node.Why = ""
			}
			nodes.Agents = append(nodes.Agents, node)
		}
	}
}

// nodeOf describes an agent, but for its group and its state, as if it had failed or was waiting.
func nodeOf(a *agent, p *progress, c *candidacy) Node {
	node := Node{Agent: a.report.Agent, Activated: a.report.Activated}
	if a.couldNot(&p.release) {
		node.Err = a.failures[p.release.Name].Err
	}
	if c != nil {
		if err := c.failed[a]; err != nil && node.Err == nil {
			node.Err = err
		}
		node.Why = c.held[a]
		if c.old.has(a.slot) {
			node.Why = c.tooOld(&a.report)
		}
		counted := c.counts[a]
		node.Calls, node.FailedCalls = counted.all, counted.failed
	}
	if node.Why == "" && a.lags(&p.release) && a.report.Activated >= p.release.Revision {
		node.Why = processLags
	}
	return node
}
