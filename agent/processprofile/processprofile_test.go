package processprofile_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/scriptorium-dev/scriptorium/agent/processprofile"
	"github.com/scriptorium-dev/scriptorium/script"
)

// take takes a profile that somebody ends when while returns.
func take(t *testing.T, kind processprofile.Kind, while func()) *profile.Profile {
	t.Helper()
	end := make(chan struct{})
	go func() {
		defer close(end)
		while()
	}()
	data, err := processprofile.Take(t.Context(), kind, time.Minute, end)
	<-end
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	p, err := profile.Parse(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	return p
}

// has reports whether a function is in the profile with a value.
func has(p *profile.Profile, function string) bool {
	for _, s := range p.Sample {
		for _, l := range s.Location {
			for _, line := range l.Line {
				if strings.Contains(line.Function.Name, function) && s.Value[0] > 0 {
					return true
				}
			}
		}
	}
	return false
}

// compute keeps the processor busy for so long, on whatever machine.
func compute(processor time.Duration) (n int) {
	for end := time.Now().Add(processor); time.Now().Before(end); n++ {
	}
	return n
}

func contend() {
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				mu.Lock()
				compute(50 * time.Microsecond)
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

func TestKinds(t *testing.T) {
	for _, kind := range processprofile.Kinds() {
		while, want := func() {}, ""
		switch kind {
		case processprofile.CPU:
			while, want = func() { compute(2 * time.Second) }, "processprofile_test.compute"
		case processprofile.Goroutine:
			want = "TestKinds"
		case processprofile.Mutex, processprofile.Block:
			while, want = func() {
				for range 20 {
					contend()
				}
			}, "processprofile_test.contend"
		case processprofile.Heap, processprofile.Allocs:
		}
		if p := take(t, kind, while); want != "" && !has(p, want) {
			t.Errorf("%s: %s is not in\n%v", kind, want, p)
		}
	}
	if runtime.SetMutexProfileFraction(-1) != 0 {
		t.Error("locks are sampled after the profile")
	}
}

// TestWaitsAreThoseOfTheProfile: what went on before is not in it.
func TestWaitsAreThoseOfTheProfile(t *testing.T) {
	stop := processprofile.Sample(processprofile.Mutex)
	contend()
	stop()
	if p := take(t, processprofile.Mutex, func() {}); has(p, "processprofile_test.contend") {
		t.Errorf("what was before is in the profile:\n%v", p)
	}
}

func TestOneAtATime(t *testing.T) {
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		err := errors.New("not begun")
		for begun := false; !begun; begun = script.KindOf(err) != script.Conflict { // with the one below
			_, err = processprofile.Take(t.Context(), processprofile.Block, time.Minute, end)
		}
		if err != nil {
			t.Error(err)
		}
	}()
	var err error
	for ctx := t.Context(); script.KindOf(err) != script.Conflict && ctx.Err() == nil; runtime.Gosched() {
		_, err = processprofile.Take(ctx, processprofile.Heap, 0, nil)
	}
	if !strings.Contains(err.Error(), "another profile") {
		t.Error(err)
	}
	close(end)
	<-done
	if _, err := processprofile.Take(t.Context(), processprofile.Heap, 0, nil); err != nil {
		t.Errorf("after the other: %v", err)
	}
}

func TestBounds(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Second, processprofile.MaxDuration + 1} {
		if _, err := processprofile.Take(t.Context(), processprofile.CPU, d, nil); script.KindOf(err) != script.Invalid {
			t.Errorf("for %v: %v", d, err)
		}
	}
	if _, err := processprofile.Take(t.Context(), "everything", time.Second, nil); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "goroutine") {
		t.Errorf("of a kind that is none: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := processprofile.Take(ctx, processprofile.CPU, time.Minute, nil); err == nil {
		t.Error("nobody waits for the profile, and it is taken")
	}
}
