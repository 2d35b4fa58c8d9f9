package controller

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestMemoryKnows: what the registry said holds until the fleet's watch tells, or may
// have failed to tell, of something else.
func TestMemoryKnows(t *testing.T) {
	at := func(revision script.Revision) *script.Release { return &script.Release{Revision: revision} }
	state := func(session int, isLive bool, head script.Revision) fleet.State {
		return fleet.State{Session: session, Live: isLive, Head: head}
	}
	asked := func(r *script.Release, session int) memory {
		var m memory
		m.learn(r, session)
		return m
	}
	doubtful := asked(at(7), 1)
	doubtful.invalidate()
	tests := []struct {
		name  string
		m     memory
		state fleet.State
		told  *script.Release
		want  bool
	}{
		{"never asked, and the fleet knows no such script", memory{}, state(1, true, 9), nil, true},
		{"never asked, and there is one", memory{}, state(1, true, 9), at(7), false},
		{"never asked, and nobody knows the fleet", memory{}, state(0, false, 0), nil, false},
		{"nobody knows the fleet any more", memory{}, state(1, false, 9), nil, false},
		{"the same release", asked(at(7), 1), state(1, true, 9), at(7), true},
		{"the fleet is behind", asked(at(7), 1), state(1, true, 6), at(5), true},
		{"the fleet is behind, and does not know the script", asked(at(7), 1), state(1, true, 6), nil, true},
		{"an older release at a higher revision: the store was restored", asked(at(7), 1), state(1, true, 9), at(5), false},
		{"an older release, and the watch is broken", asked(at(7), 1), state(1, false, 9), at(5), true},
		{"a newer release", asked(at(7), 1), state(1, true, 9), at(8), false},
		{"the script is gone", asked(at(7), 1), state(1, true, 9), nil, false},
		{"the watch is broken", asked(at(7), 1), state(1, false, 9), nil, true},
		{"another connection: the registry may be another", asked(at(7), 1), state(2, true, 7), at(7), false},
		{"there was none, and is none", asked(nil, 1), state(1, true, 9), nil, true},
		{"there was none, and is one", asked(nil, 1), state(1, true, 9), at(9), false},
		{"a tombstone is none", asked(&script.Release{Revision: 7, Deleted: true}, 1), state(1, true, 9), nil, true},
		{"asked before the fleet was known", asked(at(7), 0), state(1, true, 9), nil, false},
		{"a write of which nobody knows what became", doubtful, state(1, true, 9), at(7), false},
	}
	for _, tt := range tests {
		if got := tt.m.knows(tt.state, tt.told); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// TestMemoryOfTheStatus: the cache is behind what was written just now, until it is not.
func TestMemoryOfTheStatus(t *testing.T) {
	m := memory{written: &v1alpha1.LuaScriptStatus{Phase: v1alpha1.PhaseActive}, version: "100"}
	for version, want := range map[string]v1alpha1.Phase{"99": v1alpha1.PhaseActive, "100": v1alpha1.PhaseError, "101": v1alpha1.PhaseError, "1000": v1alpha1.PhaseError} {
		ls := &v1alpha1.LuaScript{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}, Status: v1alpha1.LuaScriptStatus{Phase: v1alpha1.PhaseError}}
		if got := m.status(ls).Phase; got != want {
			t.Errorf("at %s: %s, want %s", version, got, want)
		}
	}
}

// TestMemoryMeasures: how long a spec took is known if it was seen to come.
func TestMemoryMeasures(t *testing.T) {
	converged := []metav1.Condition{{Type: v1alpha1.ConditionConverged, Status: metav1.ConditionTrue}}
	now := time.Unix(1000, 0)
	fresh := &v1alpha1.LuaScript{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	known := &v1alpha1.LuaScript{ObjectMeta: metav1.ObjectMeta{Generation: 1}, Status: v1alpha1.LuaScriptStatus{ObservedGeneration: 1, Conditions: converged}}
	lost := known.DeepCopy()
	lost.Status.Conditions[0].Status = metav1.ConditionUnknown
	underWay := &v1alpha1.LuaScript{ObjectMeta: metav1.ObjectMeta{Generation: 1}, Status: v1alpha1.LuaScriptStatus{ObservedGeneration: 1}}
	for name, tt := range map[string]struct {
		ls                 *v1alpha1.LuaScript
		measured, announce bool
	}{
		"new":                                    {fresh, false, false},
		"converged before this operator started": {known, true, false},
		"the registry is away, as it was for the operator before": {lost, true, false},
		"published before, and not yet on all nodes":              {underWay, true, true},
	} {
		var m memory
		m.see(tt.ls, now)
		if m.measured != tt.measured || m.announce != tt.announce {
			t.Errorf("%s: measured %v, announce %v", name, m.measured, m.announce)
		}
		edited := tt.ls.DeepCopy()
		edited.Generation = 2
		m.see(edited, now.Add(time.Second))
		if m.measured || m.announce != tt.announce || m.seenAt != now.Add(time.Second) {
			t.Errorf("%s, then edited: measured %v, announce %v, seen at %v", name, m.measured, m.announce, m.seenAt)
		}
		m.see(edited, now.Add(time.Hour))
		if m.seenAt != now.Add(time.Second) {
			t.Errorf("%s: seen again, it was seen first at %v", name, m.seenAt)
		}
	}
}
