package profile_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/profile"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

var (
	route = script.Name{Tenant: "acme", Script: "route"}
	other = script.Name{Tenant: "acme", Script: "other"}
)

func start(t *testing.T, p *profile.Profiles, of script.Name, version uint64) *profile.Running {
	t.Helper()
	r, err := p.Start(profile.Spec{Script: of, Version: version, ID: "id", Duration: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// at is a stack of one line.
func at(line int) []engine.Frame { return []engine.Frame{{Function: 1, Line: int32(line)}} }

// TestOnlyWhatIsAskedFor: the samples of other scripts and other versions are in no profile.
func TestOnlyWhatIsAskedFor(t *testing.T) {
	var p profile.Profiles
	if p.Of(route, 1) != nil {
		t.Error("a call is profiled, and there is no profile")
	}
	r := start(t, &p, route, 2)
	if p.Of(route, 1) != nil || p.Of(other, 2) != nil {
		t.Error("calls of another version, or another script, are profiled")
	}
	late := p.Of(route, 2)
	late.Sample(at(3), 100)
	late.Sample(at(3), 11)
	late.Sample(at(4), 500)
	result := r.Stop()
	if p.Of(route, 2) != nil {
		t.Error("calls are profiled after the end")
	}
	late.Sample(at(9), 1) // of a call that began before
	want := []profile.Stack{{Frames: at(4), Instructions: 500}, {Frames: at(3), Instructions: 111}}
	if len(result.Versions) != 1 || result.Versions[0].Number != 2 || result.Versions[0].Calls != 1 ||
		!slices.EqualFunc(result.Versions[0].Stacks, want, func(a, b profile.Stack) bool {
			return slices.Equal(a.Frames, b.Frames) && a.Instructions == b.Instructions
		}) {
		t.Errorf("%+v", result)
	}
}

// TestAProfileIsBounded: whatever samples come, it keeps few stacks, frames, versions and bytes.
func TestAProfileIsBounded(t *testing.T) {
	var p profile.Profiles
	r := start(t, &p, route, 0)
	total := uint64(0)
	sample := func(version uint64, stack []engine.Frame) {
		if to := p.Of(route, version); to != nil {
			to.Sample(stack, 1009)
			total += 1009
		}
	}
	for i := range 20_000 {
		stack := at(i % 7)
		for depth := range 100 {
			stack = append(stack, engine.Frame{Builtin: fmt.Sprintf("%0200d", i*100+depth)})
		}
		sample(uint64(i%9), stack)
	}
	result := r.Stop()
	stacks, frames, instructions, size := 0, map[engine.Frame]bool{}, uint64(0), 0
	for _, v := range result.Versions {
		stacks += len(v.Stacks)
		for _, s := range v.Stacks {
			instructions += s.Instructions
			if len(s.Frames) > engine.MaxProfileDepth {
				t.Fatalf("a stack of %d functions", len(s.Frames))
			}
			for _, f := range s.Frames {
				frames[f] = true
				if len(f.Builtin) > 64 {
					t.Fatalf("a name of %d bytes", len(f.Builtin))
				}
			}
		}
	}
	for m := range result.Parts() {
		if n := proto.Size(m); n > 128<<10 {
			t.Errorf("a part of %d bytes", n)
		} else {
			size += n
		}
	}
	if len(result.Versions) != 4 || stacks > 2010 || len(frames) > 2060 || instructions != total || size > 1<<20 {
		t.Errorf("%d versions, %d stacks, %d frames, %d of %d instructions, %d bytes", len(result.Versions), stacks, len(frames), instructions, total, size)
	}
	if result.OtherCalls == 0 {
		t.Error("calls of versions that are too many are not counted")
	}
}

// TestPartsAddUp to what the profile has found.
func TestPartsAddUp(t *testing.T) {
	var p profile.Profiles
	r := start(t, &p, route, 0)
	to := p.Of(route, 7)
	for i := range 1500 {
		stack := at(i)
		for depth := range 50 {
			stack = append(stack, engine.Frame{Function: int32(depth), Line: int32(i % 4)})
		}
		to.Sample(stack, uint64(i))
	}
	result := r.Stop()
	parts, calls, instructions := 0, uint64(0), uint64(0)
	for m := range result.Parts() {
		parts++
		calls += m.GetCalls()
		for _, s := range m.GetStacks() {
			instructions += s.GetInstructions()
			if n := m.GetFrames()[s.GetFrames()[0]]; n.GetFunction() != 1 || n.GetLine() != int32(s.GetInstructions()) {
				t.Fatalf("the stack of %d instructions is at %v", s.GetInstructions(), n)
			}
		}
	}
	if parts < 2 || calls != 1 || instructions != 1500*1499/2 {
		t.Errorf("%d parts, %d calls, %d instructions", parts, calls, instructions)
	}
}

func TestFewProfilesAtATime(t *testing.T) {
	var p profile.Profiles
	first := start(t, &p, route, 1)
	refused := func(of script.Name, kind script.Kind) {
		t.Helper()
		if _, err := p.Start(profile.Spec{Script: of, Duration: time.Second}); script.KindOf(err) != kind {
			t.Errorf("%v: %v, want %s", of, err, kind)
		}
	}
	refused(route, script.Conflict)
	second := start(t, &p, other, 0)
	refused(script.Name{Tenant: "acme", Script: "third"}, script.Limit)
	for i := range 6 {
		start(t, &p, script.Name{Tenant: fmt.Sprint("t", i), Script: "s"}, 0)
	}
	refused(script.Name{Tenant: "late", Script: "s"}, script.Limit)
	first.Stop()
	second.Stop()
	start(t, &p, route, 0).Stop()
	for _, d := range []time.Duration{0, -1, profile.MaxDuration + 1} {
		if _, err := p.Start(profile.Spec{Script: route, Duration: d}); script.KindOf(err) != script.Invalid {
			t.Errorf("for %v: %v", d, err)
		}
	}
}

// TestWaitEnds with the time, with End, and with the context.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p profile.Profiles
		began := time.Now()
		if r := start(t, &p, route, 0).Wait(t.Context()); time.Since(began) != time.Minute || r.Took != time.Minute {
			t.Errorf("after %v, %v", time.Since(began), r.Took)
		}
		r := start(t, &p, route, 0)
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if got := r.Wait(t.Context()); got.Took != time.Second {
				t.Errorf("ended early after %v", got.Took)
			}
		})
		time.Sleep(time.Second) // of a fake clock
		if p.End(other, "id") || p.End(route, "another") || !p.End(route, "id") {
			t.Error("End takes one profile for another")
		}
		waiting.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if got := start(t, &p, route, 0).Wait(ctx); got.Took != 2*time.Second {
			t.Errorf("the context ended after %v", got.Took)
		}
	})
}

// TestNoCallWaits: samples that come at the same time all count.
func TestNoCallWaits(t *testing.T) {
	var p profile.Profiles
	r := start(t, &p, route, 0)
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			for range 2000 {
				p.Of(route, uint64(1+i%2)).Sample(at(i), 10)
			}
		})
	}
	calls.Wait()
	var n, count uint64
	for _, v := range r.Stop().Versions {
		n += v.Missed
		count += v.Calls
		for _, s := range v.Stacks {
			n += s.Instructions
		}
	}
	if n != 8*2000*10 || count != 8*2000 {
		t.Errorf("%d instructions of %d calls", n, count)
	}
}

// BenchmarkNothing is what to compare BenchmarkOff with.
func BenchmarkNothing(b *testing.B) {
	inv := &engine.Invocation{}
	for b.Loop() {
		inv.Profile = nil
	}
}

// BenchmarkOff is what a call costs more because it could be profiled.
func BenchmarkOff(b *testing.B) {
	var p profile.Profiles
	inv := &engine.Invocation{}
	b.ReportAllocs()
	for b.Loop() {
		inv.Profile = p.Of(route, 1)
	}
}

// BenchmarkOfAnother is what a call costs more while other scripts are profiled.
func BenchmarkOfAnother(b *testing.B) {
	var p profile.Profiles
	for i := range 8 {
		if _, err := p.Start(profile.Spec{Script: script.Name{Tenant: fmt.Sprint("t", i), Script: "s"}, Duration: time.Minute}); err != nil {
			b.Fatal(err)
		}
	}
	inv := &engine.Invocation{}
	b.ReportAllocs()
	for b.Loop() {
		inv.Profile = p.Of(route, 1)
	}
}

func BenchmarkSample(b *testing.B) {
	var p profile.Profiles
	if _, err := p.Start(profile.Spec{Script: route, Duration: time.Minute}); err != nil {
		b.Fatal(err)
	}
	to := p.Of(route, 1)
	stack := at(1)
	for depth := range 10 {
		stack = append(stack, engine.Frame{Function: int32(depth), Line: 7})
	}
	b.ReportAllocs()
	for b.Loop() {
		to.Sample(stack, 1009)
	}
}
