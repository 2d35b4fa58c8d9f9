package scriptorium_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/embedded/etcdtest"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

// TestRepairsWhileFrozen: doctor --repair restores a script that etcd remembers exactly. It puts
// another one together from its versions after the thaw alone.
func TestRepairsWhileFrozen(t *testing.T) {
	needs.Time(t, "starts four processes")
	needs.NoRace(t)
	t.Parallel()
	c := startGated(t, 2, "")
	etcd := etcdtest.Client(t, c.etcd.Endpoint())
	spoil := func(name string) int64 {
		t.Helper()
		put, err := etcd.Put(t.Context(), "/scriptorium/releases/acme/"+name, "\xff")
		if err != nil {
			t.Fatal(err)
		}
		return put.Header.Revision
	}
	for _, name := range []string{"remembered", "parts"} {
		c.plan(name, 1, nil)
		c.plan(name, 2, nil)
		c.live(name, 2)
		c.everywhere(name, "2")
	}
	c.freeze()
	if _, err := etcd.Compact(t.Context(), spoil("parts")); err != nil { // etcd forgets what it was
		t.Fatal(err)
	}
	spoil("remembered")
	c.killRegistry()
	c.awaitAgents(2)
	// repair returns what doctor says of the script.
	repair := func(name string) (found registryclient.Finding) {
		t.Helper()
		for f, err := range c.client.Doctor(t.Context(), registryclient.DoctorOptions{Selected: of(name), Repair: true, Author: "ann"}) {
			if err != nil {
				t.Fatal(err)
			}
			if f.Key == "releases/acme/"+name {
				found = f
			}
		}
		return found
	}
	for name, repaired := range map[string]bool{"remembered": true, "parts": false} {
		if f := repair(name); f.Repaired != repaired || strings.Contains(f.Remedy, "frozen by ann") == repaired {
			t.Errorf("%s: %+v", name, f)
		}
		if _, err := c.client.Get(t.Context(), of(name)); (err == nil) != repaired {
			t.Errorf("after the repair, %s is %v", name, err)
		}
		c.everywhere(name, "2")
	}
	c.thaw()
	if f := repair("parts"); !f.Repaired {
		t.Errorf("after the thaw: %+v", f)
	}
	c.live("parts", 2)
	c.everywhere("parts", "2")
}
