package follow_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
)

// TestRecall: an agent hands on each recall that names it once, and none that is not the
// registry's, old, or without bounds.
func TestRecall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		n := newNode(w, "n")
		cfg := n.config(1)
		var got []string
		cfg.Recall = func(r follow.Recall) { got = append(got, fmt.Sprintf("%v %s %s", r.Fleet == w.fleet, r.ID, r.Keys)) }
		stop := follows(t, cfg)
		pass(2 * time.Second)
		tell := func(sealed []byte) { w.tell(follow.Handler.Recall, sealed) }
		now := time.Now()
		recall := func(id string, change func(*eventv1.Recall)) *eventv1.Recall {
			m := &eventv1.Recall{
				Fleet: w.fleet, Id: id, Agents: []string{"m", cfg.Agent}, Keys: []string{"tenants/acme"}, SentAt: timestamppb.New(now),
			}
			if change != nil {
				change(m)
			}
			return m
		}
		tell(w.seal(recall("a", nil)))
		tell(w.seal(recall("a", nil))) // again
		tell(w.seal(recall("b", func(m *eventv1.Recall) { m.SentAt = timestamppb.New(now.Add(-time.Minute)) })))
		tell(w.seal(recall("old", func(m *eventv1.Recall) { m.SentAt = timestamppb.New(now.Add(-6 * time.Minute)) })))
		tell(w.seal(recall("early", func(m *eventv1.Recall) { m.SentAt = timestamppb.New(now.Add(6 * time.Minute)) })))
		tell(w.seal(recall("not for it", func(m *eventv1.Recall) { m.Agents = []string{"m"} })))
		tell(sealWith(t, seal.Unsigned(), recall("forged", nil)))
		tell([]byte("rubbish"))
		tell(w.seal(recall("", nil)))
		tell(w.seal(recall("no keys", func(m *eventv1.Recall) { m.Keys = nil })))
		tell(w.seal(recall("many keys", func(m *eventv1.Recall) { m.Keys = slices.Repeat(m.Keys, 17) })))
		tell(w.seal(recall("many agents", func(m *eventv1.Recall) { m.Agents = slices.Repeat(m.Agents, 33) })))
		tell(w.seal(recall("elsewhere", func(m *eventv1.Recall) { m.Fleet = "other" })))
		if want := []string{"true a [tenants/acme]", "true b [tenants/acme]"}; !slices.Equal(got, want) {
			t.Errorf("Recall was called with %q, want %q", got, want)
		}
		for reason, want := range map[string]float64{"replayed": 3, "unsigned": 1, "malformed": 5, "other_fleet": 1} {
			if got := n.refused(reason); float64(got) != want {
				t.Errorf("%v are refused as %s, want %v", got, reason, want)
			}
		}
		stop()
	})
}
