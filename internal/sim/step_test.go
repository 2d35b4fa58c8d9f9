package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// kind is what a step does.
type kind int

const (
	stepWrite kind = iota
	stepBus        // of an agent's or a replica's connection to the bus
	stepBusDown
	stepRegistryLink // of an agent's connection to the registry
	stepStoreLink    // of a replica's connection to the store
	stepHeal         // everything
	stepCrashAgent
	stepStartAgent
	stepDisk
	stepKillReplica
	stepStartReplica
	stepDrainReplica
	stepHandOver
	stepTwoLeaders
	stepCompact
	stepCollect
	stepClock
	stepForge
	stepDrift
	stepRotate
	stepForgetGroup
	stepObject    // of a writer of values and settings
	stepCandidate // of what becomes of one
	stepSpoil     // a record of the store
	stepSet       // of a writer of change sets
	kinds
)

// step is one action of a schedule. What it does is in itself, whatever the steps
// before it were, so that a schedule can be cut.
type step struct {
	number int           // in the schedule, from 0
	wait   time.Duration // before it
	kind   kind
	who    int    // agent, replica or writer
	mode   int    // how
	seed   uint64 // of what is random in it
}

// shape is what a schedule is run with.
type shape struct {
	seed     uint64
	replicas int
	agents   []string // globs of each with commas between them; "" for all tenants
	steps    []step
}

// Limits of a shape.
const minSteps, maxSteps = 8, 48

// selections of tenants that agents have.
var selections = []string{"", "", "acme", "b*", "acme,corp", "*o*"}

// names of tenants and scripts.
var (
	tenants = []string{"acme", "bolt", "corp"}
	scripts = []string{"route", "score"}
)

// generate makes the schedule of the seed. Each schedule has its own kinds of
// faults, so that some are long on one and free of the others. If there are favourites,
// all have those, and little else.
func generate(seed uint64, favourites ...kind) shape {
	r := rand.New(rand.NewPCG(seed, 1))
	s := shape{seed: seed, replicas: 2 + r.IntN(2)}
	for range 2 + r.IntN(4) {
		s.agents = append(s.agents, selections[r.IntN(len(selections))])
	}
	weights := weigh(r, favourites)
	for i := range minSteps + r.IntN(maxSteps-minSteps) {
		s.steps = append(s.steps, step{
			number: i,
			wait:   pause(r),
			kind:   draw(r, weights),
			who:    r.IntN(64),
			mode:   r.IntN(64),
			seed:   r.Uint64(),
		})
	}
	return s
}

// weigh says how often each kind of step comes.
func weigh(r *rand.Rand, favourites []kind) [kinds]float64 {
	weights := [kinds]float64{
		stepBus: 3, stepBusDown: 1, stepRegistryLink: 2, stepStoreLink: 2, stepHeal: 1.5,
		stepCrashAgent: 2, stepStartAgent: 2, stepDisk: 1.5,
		stepKillReplica: 1.5, stepStartReplica: 2, stepDrainReplica: 0.5, stepHandOver: 1, stepTwoLeaders: 1,
		stepCompact: 1, stepCollect: 1, stepClock: 0.7, stepForge: 2, stepDrift: 1, stepRotate: 0.3, stepForgetGroup: 0.3,
		stepObject: 5, stepCandidate: 4, stepSpoil: 1, stepSet: 3,
	}
	for i := range weights {
		favourite := slices.Contains(favourites, kind(i))
		if off := r.IntN(2) == 0; off && !favourite || len(favourites) > 0 && !favourite {
			weights[i] = 0
		} else if favourite {
			weights[i] = 3
		}
	}
	weights[stepWrite] = 6 + 6*r.Float64()
	if weights[stepCrashAgent] > 0 {
		weights[stepStartAgent] = 2
	}
	if weights[stepKillReplica]+weights[stepDrainReplica] > 0 {
		weights[stepStartReplica] = 2
	}
	return weights
}

func draw(r *rand.Rand, weights [kinds]float64) kind {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	at := r.Float64() * total
	for k, w := range weights {
		if at -= w; at < 0 {
			return kind(k)
		}
	}
	return stepWrite
}

// pause is mostly short: what overlaps is what breaks.
func pause(r *rand.Rand) time.Duration {
	switch r.IntN(8) {
	case 0, 1:
		return 0
	case 2, 3, 4:
		return time.Duration(r.Int64N(int64(20 * time.Millisecond)))
	case 5, 6:
		return time.Duration(r.Int64N(int64(500 * time.Millisecond)))
	}
	return time.Duration(r.Int64N(int64(3 * time.Second)))
}

// command returns the command that runs the steps of s again.
func (s shape) command() string {
	numbers := make([]string, len(s.steps))
	for i, st := range s.steps {
		numbers[i] = fmt.Sprint(st.number)
	}
	return fmt.Sprintf("go test ./internal/sim -run TestSchedules -sim.schedules 1 -sim.seed %d -sim.steps %s",
		s.seed, strings.Join(numbers, ","))
}
