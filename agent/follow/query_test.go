package follow_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestQuery: an agent passes on each query that names it and a tenant that it follows, and none that
// the registry has not signed, or that has no bounds.
func TestQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		n := newNode(w, "n")
		cfg := n.config(1)
		tenants, err := script.ParseSelector([]string{"acme", "ed*"})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Tenants = tenants
		var got []string
		cfg.Query = func(q *eventv1.Query) { got = append(got, q.GetId()) }
		stop := follows(t, cfg)
		pass(2 * time.Second)
		tell := func(sealed []byte) { w.tell(follow.Handler.Query, sealed) }
		query := func(id string, change func(*eventv1.Query)) *eventv1.Query {
			m := &eventv1.Query{Fleet: w.fleet, Id: id, Tenant: "acme", Timeout: durationpb.New(time.Second), MaxBytes: 1000}
			if change != nil {
				change(m)
			}
			return m
		}
		for _, id := range []string{"all", "all"} { // whoever answers knows them by their id
			tell(w.seal(query(id, nil)))
		}
		tell(w.seal(query("by name", func(m *eventv1.Query) { m.Agents = []string{"[", "m", cfg.Agent} })))
		tell(w.seal(query("by pattern", func(m *eventv1.Query) { m.Agents = []string{cfg.Agent[:1] + "*"} })))
		tell(w.seal(query("any tenant", func(m *eventv1.Query) { m.Tenant = "" })))
		tell(w.seal(query("of a glob", func(m *eventv1.Query) { m.Tenant = "edge" })))
		tell(w.seal(query("not for it", func(m *eventv1.Query) { m.Agents = []string{"m", "["} })))
		tell(w.seal(query("of a tenant that it does not follow", func(m *eventv1.Query) { m.Tenant = "shop" })))
		tell(sealWith(t, seal.Unsigned(), query("forged", nil)))
		tell([]byte("rubbish"))
		tell(w.seal(query("", nil)))
		tell(w.seal(query(strings.Repeat("i", 65), nil)))
		tell(w.seal(query("no room", func(m *eventv1.Query) { m.MaxBytes = 0 })))
		tell(w.seal(query("no timeout", func(m *eventv1.Query) { m.Timeout = nil })))
		tell(w.seal(query("many agents", func(m *eventv1.Query) { m.Agents = slices.Repeat([]string{cfg.Agent}, 65) })))
		tell(w.seal(query("elsewhere", func(m *eventv1.Query) { m.Fleet = "other" })))
		if want := []string{"all", "all", "by name", "by pattern", "any tenant", "of a glob"}; !slices.Equal(got, want) {
			t.Errorf("Query was called with %q, want %q", got, want)
		}
		for reason, want := range map[string]float64{"unsigned": 1, "malformed": 6, "other_fleet": 1} {
			if got := n.refused(reason); float64(got) != want {
				t.Errorf("%v are refused as %s, want %v", got, reason, want)
			}
		}
		stop()
	})
}
