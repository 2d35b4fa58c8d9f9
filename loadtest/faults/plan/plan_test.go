package plan_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/loadtest/faults/plan"
)

var shape = plan.Shape{
	Servers:    []string{"etcd-0", "etcd-1", "etcd-2", "nats-0", "nats-1", "nats-2"},
	Registries: []string{"registry-0", "registry-1"},
	Agents:     []string{"agent-0", "agent-1", "agent-2"},
	Seams:      []string{"agent-0>nats", "etcd-1", "nats-0>nats-1"},
	Writers:    []string{"writer-0>registry"},
	CanFill:    true,
}

func TestASeedIsAPlan(t *testing.T) {
	for seed := range uint64(50) {
		if a, b := plan.Make(seed, shape), plan.Make(seed, shape); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: %+v and %+v", seed, a, b)
		}
	}
	if reflect.DeepEqual(plan.Make(1, shape).Actions, plan.Make(2, shape).Actions) {
		t.Error("two seeds are one plan")
	}
}

func TestPlansAreSound(t *testing.T) {
	kinds := map[plan.Kind]int{}
	for seed := range uint64(500) {
		p := plan.Make(seed, shape)
		if len(p.Actions) < 3 {
			t.Errorf("seed %d: only %d faults", seed, len(p.Actions))
		}
		down := map[string]time.Duration{}
		var last time.Duration
		for _, a := range p.Actions {
			kinds[a.Kind]++
			if a.At < last || a.For < 0 || a.At+a.For > p.Length || a.Target == "" {
				t.Errorf("seed %d, of %v: %+v", seed, p.Length, a)
			}
			last = a.At
			if a.Kind == plan.Kill || a.Kind == plan.Pause || a.Kind == plan.Tear || a.Kind == plan.WrongPrefix {
				if a.At < down[a.Target] {
					t.Errorf("seed %d: %+v while it is down already", seed, a)
				}
				down[a.Target] = a.At + a.For
			}
		}
	}
	for _, k := range []plan.Kind{
		plan.Kill, plan.Pause, plan.Break, plan.Mangle, plan.Forge, plan.Fill, plan.Tear, plan.Jump, plan.Blackout, plan.WipeEtcd, plan.WrongPrefix,
		plan.ForgedStatus, plan.StatusFlood, plan.TwoKeys,
	} {
		if kinds[k] < 10 {
			t.Errorf("%s comes %d times in 500 plans", k, kinds[k])
		}
	}
}

func TestDisksThatCannotBeFilledAreLeftAlone(t *testing.T) {
	shape := shape
	shape.CanFill = false
	for seed := range uint64(200) {
		for _, a := range plan.Make(seed, shape).Actions {
			if a.Kind == plan.Fill {
				t.Fatalf("seed %d: %+v", seed, a)
			}
		}
	}
}
