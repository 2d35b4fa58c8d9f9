package controller

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	now := time.Unix(1000, 0)
	var p pace
	take := func(after time.Duration, urgent bool, want time.Duration) {
		t.Helper()
		now = now.Add(after)
		if got := p.take(now, urgent); got != want {
			t.Fatalf("at %v: wait %v, want %v", now.Sub(time.Unix(1000, 0)), got, want)
		}
	}
	take(0, false, 0)
	take(0, false, time.Second) // counts: one a second
	take(400*time.Millisecond, false, 600*time.Millisecond)
	take(0, true, 0) // a condition: the other token
	take(0, true, 600*time.Millisecond)
	take(600*time.Millisecond, true, 0)
	take(999*time.Millisecond, true, time.Millisecond)
	take(time.Hour, true, 0) // no more than two are saved up
	take(0, true, 0)
	take(0, true, time.Second)
}

// TestPaceHolds tries as often as it can: in any time there are no more writes than
// seconds, and two.
func TestPaceHolds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	now := time.Unix(1000, 0)
	var p pace
	var taken []time.Time
	for range 20_000 {
		now = now.Add(time.Duration(random.Int64N(int64(50 * time.Millisecond))))
		if p.take(now, random.IntN(3) > 0) == 0 {
			taken = append(taken, now)
		}
	}
	for i, first := range taken {
		for n, last := range taken[i:min(i+50, len(taken))] {
			if most := last.Sub(first).Seconds() + 2; float64(n+1) > most {
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
