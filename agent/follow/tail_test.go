package follow_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
)

// TestTail: the follower calls Tail once for each tail, and for none that is not the registry's.
func TestTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		n := newNode(w, "n")
		cfg := n.config(1)
		var got []follow.Tail
		cfg.Tail = func(t follow.Tail) { got = append(got, t) }
		stop := follows(t, cfg)
		pass(2 * time.Second)
		tell := func(sealed []byte) { w.tell(follow.Handler.Tail, sealed) }
		tail := func(name string, sentAt time.Time) *eventv1.Tail {
			return &eventv1.Tail{
				Fleet: w.fleet, Tenant: "acme", Name: name,
				SentAt: timestamppb.New(sentAt), Lasts: durationpb.New(10 * time.Second),
			}
		}
		now := time.Now()
		tell(w.seal(tail("edge", now)))
		tell(w.seal(tail("edge", now)))                   // again
		tell(w.seal(tail("edge", now.Add(-time.Second)))) // one of before
		tell(w.seal(tail("", now)))
		tell(w.seal(tail("edge", now.Add(time.Second))))
		tell(w.seal(tail("old", now.Add(-6*time.Minute))))
		tell(w.seal(tail("early", now.Add(6*time.Minute))))
		tell(sealWith(t, seal.Unsigned(), tail("forged", now)))
		tell([]byte("rubbish"))
		tell(w.seal(&eventv1.Tail{Fleet: w.fleet, Tenant: "acme", SentAt: timestamppb.New(now)}))
		elsewhere := tail("elsewhere", now)
		elsewhere.Fleet = "other"
		tell(w.seal(elsewhere))
		var names []string
		for _, tail := range got {
			names = append(names, tail.Tenant+"/"+tail.Name)
			if tail.Fleet != w.fleet || tail.Lasts != 10*time.Second {
				t.Errorf("told %+v", tail)
			}
		}
		if want := []string{"acme/edge", "acme/", "acme/edge"}; !slices.Equal(names, want) {
			t.Errorf("Tail was called with %q, want %q", names, want)
		}
		for reason, want := range map[string]float64{"replayed": 4, "unsigned": 1, "malformed": 2, "other_fleet": 1} {
			if got := n.refused(reason); float64(got) != want {
				t.Errorf("%v are refused as %s, want %v", got, reason, want)
			}
		}
		stop()
	})
}
