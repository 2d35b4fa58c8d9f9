// Package plan makes schedules of faults out of seeds. The same seed and shape give
// the same schedule.
package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/loadtest/faults/natswire"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/netfault"
)

// Kind of a fault.
type Kind string

// The kinds.
const (
	Kill   Kind = "kill"   // -9, and start again
	Pause  Kind = "pause"  // SIGSTOP, and SIGCONT
	Break  Kind = "break"  // a seam of the network
	Mangle Kind = "mangle" // messages to an agent
	Forge  Kind = "forge"  // messages to everyone
	Fill   Kind = "fill"   // an agent's disk
	Tear   Kind = "tear"   // kill -9 an agent, damage its files, start it again
	Jump   Kind = "jump"   // the wall clock of an agent or a registry
	// Garbage is put in place of a script's record in etcd, past the registries.
	Garbage Kind = "garbage-record"
	// Blackout kills all of etcd, NATS and the registries; Target, an agent, is
	// killed and started meanwhile.
	Blackout Kind = "blackout"
	// WipeEtcd stops etcd and starts it without its data, with the registries running; later
	// the data are back.
	WipeEtcd Kind = "wipe-etcd"
	// WrongPrefix restarts a registry with another --etcd-prefix.
	WrongPrefix Kind = "wrong-prefix"
	// ForgedStatus are statuses of agents, by a stranger; StatusFlood are many large ones, of
	// strangers and of agents that nobody knows.
	ForgedStatus Kind = "forged-status"
	StatusFlood  Kind = "status-flood"
	// TwoKeys starts one more registry, which signs with a key of its own.
	TwoKeys Kind = "two-keys"
)

// Action is one fault: done at At, undone For later.
type Action struct {
	At, For time.Duration
	Kind    Kind
	Target  string // a process or a seam

	Net     netfault.Fault // of Break
	Odds    natswire.Odds  // of Mangle
	Seconds int            // of Jump
	Seed    uint64         // of what is left to chance when it is done
}

// Detail says more than kind and target.
func (a Action) Detail() string {
	switch a.Kind {
	case Break:
		return a.Net.String()
	case Mangle:
		return a.Odds.String()
	case Jump:
		return fmt.Sprintf("by %+d s", a.Seconds)
	default:
		return ""
	}
}

// Plan is a schedule.
type Plan struct {
	Seed    uint64
	Length  time.Duration // until everything is undone
	Actions []Action      // in order of At
}

// Shape is what there is to break.
type Shape struct {
	Servers    []string // processes of etcd and NATS
	Registries []string // processes
	Agents     []string // processes
	Seams      []string
	Writers    []string // seams between writers and registries
	CanFill    bool     // agents' disks can be filled
	Also       []Kind   // every plan has faults of these kinds, besides others
}

// Make returns the plan of a seed.
func Make(seed uint64, shape Shape) Plan {
	m := &maker{
		random: rand.New(rand.NewPCG(seed, 2)),
		shape:  shape,
		busy:   map[string][]span{},
	}
	p := Plan{Seed: seed, Length: m.between(1200, 2600)}
	switch m.random.IntN(24) {
	case 0, 1:
		m.outage(Blackout, p.Length)
	case 2:
		m.outage(WipeEtcd, p.Length)
	}
	for _, kind := range shape.Also {
		m.always(kind, p.Length)
	}
	for range 3 + m.random.IntN(6) {
		m.add(p.Length)
	}
	p.Actions = m.actions
	slices.SortStableFunc(p.Actions, func(a, b Action) int { return int(a.At - b.At) })
	return p
}

// Kinds counts the actions by kind, as text.
func (p Plan) Kinds() string {
	counts := map[Kind]int{}
	for _, a := range p.Actions {
		counts[a.Kind]++
	}
	var parts []string
	for _, k := range []Kind{Kill, Pause, Break, Mangle, Forge, Fill, Tear, Jump, Garbage, Blackout, WipeEtcd, WrongPrefix, ForgedStatus, StatusFlood, TwoKeys} {
		if counts[k] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[k], k))
		}
	}
	return strings.Join(parts, ", ")
}

type span struct{ from, to time.Duration }

type maker struct {
	random  *rand.Rand
	shape   Shape
	busy    map[string][]span // when a process is down or stopped
	actions []Action
}

func (m *maker) between(low, high int) time.Duration {
	return time.Duration(low+m.random.IntN(high-low)) * time.Millisecond
}

func (m *maker) pick(from []string) string { return from[m.random.IntN(len(from))] }

// outage takes the control plane, or the data of etcd, away for most of the schedule.
func (m *maker) outage(kind Kind, length time.Duration) {
	a := Action{At: length / 5, For: length / 2, Kind: kind, Target: m.pick(m.shape.Agents), Seed: m.random.Uint64()}
	m.actions = append(m.actions, a)
	for _, p := range append(slices.Concat(m.shape.Servers, m.shape.Registries), a.Target) {
		m.busy[p] = append(m.busy[p], span{0, length})
	}
}

// add adds a fault that fits in, if one is found soon.
func (m *maker) add(length time.Duration) {
	for range 10 {
		a := m.draw(length)
		if !m.fits(a) {
			continue
		}
		m.actions = append(m.actions, a)
		if restart, ok := m.amid(a); ok && m.fits(restart) {
			m.actions = append(m.actions, restart)
		}
		return
	}
}

// always adds a fault of the kind, if it is one that is drawn.
func (m *maker) always(kind Kind, length time.Duration) {
	for range 10_000 {
		if a := m.draw(length); a.Kind == kind && m.fits(a) {
			m.actions = append(m.actions, a)
			return
		}
	}
}

// amid returns, for every other full disk, the restart of its agent while it is full.
func (m *maker) amid(a Action) (Action, bool) {
	if a.Kind != Fill || m.random.IntN(2) == 0 {
		return Action{}, false
	}
	return Action{At: a.At + a.For/2, For: a.For / 4, Kind: Kill, Target: a.Target, Seed: m.random.Uint64()}, true
}

// fits reports whether nobody else stops the same process meanwhile, and takes
// note of it.
func (m *maker) fits(a Action) bool {
	if a.Kind != Kill && a.Kind != Pause && a.Kind != Tear && a.Kind != WrongPrefix {
		return true
	}
	const apart = 300 * time.Millisecond // to come up in
	s := span{a.At, a.At + a.For + apart}
	for _, other := range m.busy[a.Target] {
		if s.from < other.to && other.from < s.to {
			return false
		}
	}
	m.busy[a.Target] = append(m.busy[a.Target], s)
	return true
}

// draw returns any fault.
func (m *maker) draw(length time.Duration) Action {
	a := Action{Seed: m.random.Uint64()}
	a.At = time.Duration(m.random.Int64N(int64(length * 8 / 10)))
	a.For = min(m.between(100, 1200), length-a.At)
	everyone := slices.Concat(m.shape.Servers, m.shape.Registries, m.shape.Agents)
	switch n := m.random.IntN(100); {
	case n < 4:
		a.Kind, a.Target = Garbage, "etcd"
	case n < 7:
		a.Kind, a.Target = ForgedStatus, "everyone"
	case n < 9:
		a.Kind, a.Target = StatusFlood, "everyone"
	case n < 11:
		a.Kind, a.Target = TwoKeys, "registries"
	case n < 29:
		a.Kind, a.Target = Kill, m.pick(everyone)
		if m.random.IntN(3) == 0 {
			a.Target = m.pick(m.shape.Agents)
		}
	case n < 38:
		a.Kind, a.Target = Pause, m.pick(everyone)
	case n < 56:
		a.Kind, a.Target, a.Net = Break, m.pick(m.shape.Seams), m.net()
	case n < 62: // who writes does not learn what became of it
		a.Kind, a.Target, a.Net = Break, m.pick(m.shape.Writers), netfault.Fault{Mode: netfault.Mute}
	case n < 74:
		a.Kind, a.Target, a.Odds = Mangle, m.pick(m.shape.Agents), m.odds()
	case n < 82:
		a.Kind, a.Target = Forge, "everyone"
	case n < 88 && m.shape.CanFill:
		a.Kind, a.Target = Fill, m.pick(m.shape.Agents)
		a.For = min(m.between(500, 1500), length-a.At)
	case n < 93:
		a.Kind, a.Target = Tear, m.pick(m.shape.Agents)
	case n < 95:
		a.Kind, a.Target = WrongPrefix, m.pick(m.shape.Registries)
	default:
		a.Kind, a.Target = Jump, m.pick(slices.Concat(m.shape.Agents, m.shape.Registries))
		far := []int{5, 60, 3600, 86400, 400 * 86400}
		a.Seconds = far[m.random.IntN(len(far))]
		if m.random.IntN(2) == 0 {
			a.Seconds = -a.Seconds
		}
	}
	return a
}

func (m *maker) net() netfault.Fault {
	switch m.random.IntN(6) {
	case 5:
		return netfault.Fault{Mode: netfault.Mute}
	case 0, 1:
		return netfault.Fault{Mode: netfault.Cut}
	case 2:
		return netfault.Fault{Mode: netfault.Blackhole}
	case 3:
		return netfault.Fault{Mode: netfault.Delay, Late: m.between(5, 300)}
	default:
		return netfault.Fault{Mode: netfault.Throttle, BytesPerSecond: 1 << (8 + m.random.IntN(8))}
	}
}

func (m *maker) odds() natswire.Odds {
	o := natswire.Odds{Late: m.between(1, 800)}
	for _, odds := range []*float64{&o.Drop, &o.Double, &o.Delay, &o.Reorder} {
		if m.random.IntN(2) == 0 {
			*odds = 0.25 * m.random.Float64()
		}
	}
	if m.random.IntN(4) == 0 {
		o.Drop = 0.25 + 0.25*m.random.Float64()
	}
	return o
}
