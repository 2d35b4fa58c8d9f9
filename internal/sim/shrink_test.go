package sim

import (
	"slices"
	"testing"
	"time"
)

// shrink returns the fewest steps of s, as far as it finds out until the deadline,
// with which fails still says yes. It drops ever smaller runs of steps (delta
// debugging), and starts over after each success.
func shrink(s shape, until time.Time, fails func(shape) bool) shape {
	for size := (len(s.steps) + 1) / 2; size > 0; {
		dropped := false
		for at := 0; at < len(s.steps); {
			if time.Now().After(until) {
				return s
			}
			less := s
			less.steps = slices.Delete(slices.Clone(s.steps), at, min(at+size, len(s.steps)))
			if fails(less) {
				s, dropped = less, true
				continue
			}
			at += size
		}
		if size == 1 && !dropped {
			break
		}
		if !dropped || size > len(s.steps) {
			size = max(1, size/2)
		}
	}
	return s
}

func TestShrinkFindsTheStepsThatMatter(t *testing.T) {
	s := generate(1)
	for len(s.steps) < 30 {
		s.steps = append(s.steps, step{number: len(s.steps)})
	}
	has := func(s shape, number int) bool {
		return slices.ContainsFunc(s.steps, func(st step) bool { return st.number == number })
	}
	runs := 0
	least := shrink(s, time.Now().Add(time.Hour), func(s shape) bool {
		runs++
		return has(s, 3) && has(s, 17) && has(s, 18)
	})
	if len(least.steps) != 3 || runs > 200 {
		t.Errorf("%d steps are left after %d runs, want 3", len(least.steps), runs)
	}
}
