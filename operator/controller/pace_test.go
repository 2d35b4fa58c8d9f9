package controller

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	now := time.Unix(1000, 0)
	var p pace
	take := func(after time.Duration, h haste, want time.Duration) {
		t.Helper()
		now = now.Add(after)
		if got := p.take(now, h); got != want {
			t.Fatalf("at %v: wait %v, want %v", now.Sub(time.Unix(1000, 0)), got, want)
		}
	}
	take(0, counts, 0)
	take(0, counts, time.Second) // counts: one a second
	take(400*time.Millisecond, counts, 600*time.Millisecond)
	take(0, condition, 0) // a condition: another token
	take(0, condition, 600*time.Millisecond)
	take(0, outcome, 0) // what became of an edit: the last one
	take(0, outcome, 600*time.Millisecond)
	take(600*time.Millisecond, counts, 2*time.Second) // they pay it back
	take(0, condition, time.Second)
	take(0, outcome, 0)
	take(time.Hour, outcome, 0) // no more than three are saved up
	take(0, outcome, 0)
	take(0, outcome, 0)
	take(0, outcome, time.Second)
}

// TestPaceOfAnEdit: what becomes of an edit right after the LuaScript was created is said
// at once, though all that there was to say of the creation was just said.
func TestPaceOfAnEdit(t *testing.T) {
	now := time.Unix(1000, 0)
	var p pace
	for _, h := range []haste{condition, outcome} { // created: published, converged
		if p.take(now, h) != 0 {
			t.Fatal("the creation waits")
		}
		now = now.Add(50 * time.Millisecond)
	}
	p.take(now, condition) // edited: on its way
	if wait := p.take(now.Add(50*time.Millisecond), outcome); wait != 0 {
		t.Errorf("the edit has converged, and that is said after %v", wait)
	}
}

// TestPaceHolds tries as often as it can: in any time there are no more writes than
// seconds, and three.
func TestPaceHolds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	now := time.Unix(1000, 0)
	var p pace
	var taken []time.Time
	for range 20_000 {
		now = now.Add(time.Duration(random.Int64N(int64(50 * time.Millisecond))))
		if p.take(now, haste(random.IntN(3))) == 0 {
			taken = append(taken, now)
		}
	}
	for i, first := range taken {
		for n, last := range taken[i:min(i+50, len(taken))] {
			if most := last.Sub(first).Seconds() + 3; float64(n+1) > most {
				t.Fatalf("%d writes in %v", n+1, last.Sub(first))
			}
		}
	}
	if most := now.Sub(time.Unix(1000, 0)).Seconds(); float64(len(taken)) < most*0.9 {
		t.Errorf("%d writes in %.0f seconds: it waits for longer than it must", len(taken), most)
	}
}

func TestRetry(t *testing.T) {
	now := time.Unix(1000, 0)
	down := &fault{}
	var r retry
	var last time.Duration
	for attempt := range 20 {
		wait := r.failed(down, 3, 1, now)
		if wait > maxRetry*6/5 || attempt > 10 && wait < maxRetry*4/5 {
			t.Fatalf("attempt %d: wait %v", attempt, wait)
		}
		if attempt < 5 && wait < last {
			t.Fatalf("attempt %d: wait %v, after %v", attempt, wait, last)
		}
		last = wait
		if got := r.wait(3, 1, now.Add(wait-1)); got != 1 {
			t.Fatalf("woken just before: wait %v", got)
		}
		now = now.Add(wait)
		if r.wait(3, 1, now) != 0 {
			t.Fatal("it is time, and it waits")
		}
	}
	r.failed(down, 3, 1, now)
	if r.wait(4, 1, now) != 0 {
		t.Error("a changed spec waits")
	}
	if r.wait(3, 2, now) != 0 {
		t.Error("a registry that is back is not asked")
	}
	if wait := r.failed(down, 4, 1, now); wait > 2*minRetry {
		t.Errorf("the first failure of another spec: wait %v", wait)
	}

	refused := &fault{permanent: true}
	wait := r.failed(refused, 4, 1, now)
	if wait < stalledRetry/2 {
		t.Errorf("refused: again after %v", wait)
	}
	if r.wait(4, 1, now) != minStalled || r.wait(4, 1, now.Add(minStalled)) != 0 {
		t.Error("refused, and then woken: it should be tried after a second")
	}
}
