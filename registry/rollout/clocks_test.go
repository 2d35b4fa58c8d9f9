package rollout_test

import (
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/rollout"
)

// TestClocksThatJump: a clock that jumps back lets the pause last longer. One that jumps ahead ends
// it, but the agents have yet to be heard then, and no deadline counts what the pause takes.
func TestClocksThatJump(t *testing.T) {
	for name, tt := range map[string]struct {
		jump      time.Duration
		confirmed int
		want      registry.Move
	}{
		"back by a year":              {-365 * 24 * time.Hour, 0, registry.Move{}},
		"back by a second":            {-time.Second, 0, registry.Move{}},
		"ahead, and nobody was heard": {365 * 24 * time.Hour, 0, registry.Move{}},
		"ahead, and some were heard":  {365 * 24 * time.Hour, 2, registry.Move{}},
		"ahead, and all were heard":   {365 * 24 * time.Hour, 3, registry.Move{Step: 2}},
	} {
		c := candidacy()
		c.Confirmed = tt.confirmed
		now := noon.Add(time.Minute - 1).Add(tt.jump)
		d := rollout.Next(c, now)
		if d.Move != tt.want {
			t.Errorf("%s: %+v, want the move %+v", name, d, tt.want)
		}
		if d.Move == (registry.Move{}) && !d.Until.After(now) {
			t.Errorf("%s: it waits until %v, at %v", name, d.Until, now)
		}
	}
}
