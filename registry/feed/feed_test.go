package feed_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/feed"
	"github.com/scriptorium-dev/scriptorium/registry/mirror"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.stop()
		b.Lead(1)
		want := b.publish("acme", "route", "return 1")
		b.publish("acme", "large", strings.Repeat("x", 65<<10))
		gone := b.remove("acme", "route")
		synctest.Wait()
		events := b.of("all")
		wantChain(t, events, 0)
		if len(events) != 3 {
			t.Fatalf("%d events, want 3", len(events))
		}
		e := events[0]
		fleet, _ := b.store.Fleet(t.Context())
		if e.Fleet != fleet || e.Revision != want.Revision || !e.CommittedAt.Equal(want.ChangedAt) {
			t.Errorf("event: %+v", e)
		}
		if got := releasesOf(t, e); len(got) != 1 || wire.Fingerprint(got[0]) != wire.Fingerprint(want) {
			t.Errorf("releases: %+v, want %+v", got, want)
		}
		if len(e.Sources) != 1 || string(e.Sources[0].Content) != "return 1" || e.Sources[0].Digest != want.Active.Digest {
			t.Errorf("sources: %+v", e.Sources)
		}
		if len(events[1].Sources) != 0 || len(events[2].Sources) != 0 {
			t.Error("a source came along that is large, or gone")
		}
		if got := releasesOf(t, events[2]); len(got) != 1 || !got[0].Deleted || got[0].Revision != gone.Revision {
			t.Errorf("releases: %+v, want the tombstone", got)
		}
	})
}

// TestEventsOfAllKinds: values and settings ride the same chain as releases, the small
// contents come along, and the beacon has a checksum of each kind.
func TestEventsOfAllKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shops := selector(t, "shop-*")
		b := newBench(t, shops)
		defer b.stop()
		b.Lead(1)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		b.publish("acme", "route", "return 1")
		must(b.putValue("shop-a", "flags/a", "on"))
		must(b.putValue("shop-a", "large", strings.Repeat("x", 65<<10)))
		must(b.setTenant("shop-b", 3))
		b.publish("shop-a", "route", "return 2")
		must(b.removeValue("shop-a", "flags/a"))
		synctest.Wait()
		wantChain(t, b.of("all"), 0)
		events := b.of(shops.Group())
		wantChain(t, events, 0)
		want := []string{"values/shop-a/flags/a", "values/shop-a/large", "tenants/shop-b", "releases/shop-a/route", "values/shop-a/flags/a"}
		if len(events) != len(want) || len(b.of("all")) != len(want)+1 {
			t.Fatalf("%d events of the shops, %d of all; want %d and one more", len(events), len(b.of("all")), len(want))
		}
		for i, e := range events {
			objects := objectsOf(t, e)
			if len(objects) != 1 || objects[0].Key() != want[i] || objects[0].Revision() != e.Revision || !e.CommittedAt.Equal(objects[0].ChangedAt()) {
				t.Errorf("event %d: %+v, want %s", e.Revision, objects, want[i])
			}
			if inline := i == 0 || i == 3; inline != (len(e.Sources) == 1) {
				t.Errorf("event %d of %s has %d sources", e.Revision, want[i], len(e.Sources))
			}
		}
		if content := string(events[0].Sources[0].Content); content != "on" {
			t.Errorf("the value came as %q", content)
		}
		later(registry.PulseInterval + time.Millisecond)
		synctest.Wait()
		sums := b.lastBeacon(shops.Group()).Position.Sums
		for i, kind := range []script.ObjectKind{script.Values, script.Tenants, script.Releases} {
			o := objectsOf(t, events[i+1])[0] // the live ones
			if sums.Of(kind) != wire.FingerprintObject(o) {
				t.Errorf("the checksum of the %s is not that of %s", kind, o.Key())
			}
		}
	})
}

// TestGroupsHaveTheirOwnChains: each group gets the events of its tenants alone, and
// each says which of them came before, from the first one on.
func TestGroupsHaveTheirOwnChains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shops, zoo := selector(t, "shop-*"), selector(t, "zoo")
		b := newBench(t, shops, zoo)
		defer b.stop()
		b.Lead(1)
		first := b.publish("shop-a", "route", "1")
		b.publish("acme", "route", "2")
		second := b.publish("shop-b", "route", "3")
		synctest.Wait()
		late := selector(t, "acme", "shop-a")
		b.SetGroups([]script.Selector{shops, late})
		third := b.publish("shop-a", "route", "4")
		b.publish("zoo", "route", "5")
		synctest.Wait()

		got := b.of(shops.Group())
		wantChain(t, got, 0)
		if len(got) != 3 || got[0].Revision != first.Revision || got[1].Revision != second.Revision || got[2].Revision != third.Revision {
			t.Errorf("shops: %+v", got)
		}
		if got := b.of(late.Group()); len(got) != 1 || got[0].Previous != 2 || got[0].Revision != third.Revision {
			t.Errorf("a group that came late: %+v; want %d after 2", got, third.Revision)
		}
		if got := b.of(zoo.Group()); len(got) != 0 {
			t.Errorf("a group that was removed: %+v", got)
		}
		all := b.of("all")
		wantChain(t, all, 0)
		if len(all) != 5 {
			t.Errorf("%d events of all, want 5", len(all))
		}
	})
}

func TestBeacons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shops := selector(t, "shop-*")
		b := newBench(t, shops)
		defer b.stop()
		b.publish("shop-a", "route", "1")
		synctest.Wait()
		if n := b.beaconCount(); n != 0 || len(b.of("all")) != 0 {
			t.Errorf("%d beacons and %d events of a replica that does not lead", n, len(b.of("all")))
		}
		b.Lead(7)
		if n := b.beaconCount(); n != 2 {
			t.Errorf("%d beacons at once, want one for each group", n)
		}
		other := b.publish("acme", "route", "2")
		later(5*registry.PulseInterval + time.Millisecond)
		synctest.Wait()
		if n := b.beaconCount(); n != 12 {
			t.Errorf("%d beacons after 5 intervals, want 12", n)
		}
		shop, all := b.lastBeacon(shops.Group()), b.lastBeacon("all")
		if shop.Head != other.Revision || shop.Position.Head != 1 || shop.Position != b.mirror.Group(shops) || shop.Term != 7 || shop.Fleet == "" || shop.SentAt.IsZero() {
			t.Errorf("beacon: %+v", shop)
		}
		if all.Head != other.Revision || all.Position.Head != other.Revision || all.Position != b.mirror.Group(script.Selector{}) || all.ReportInterval != 100*time.Millisecond {
			t.Errorf("beacon: %+v", all)
		}
		if shop.Sequence == all.Sequence || max(shop.Sequence, all.Sequence) != 12 {
			t.Errorf("sequences %d and %d, want them to count the beacons", shop.Sequence, all.Sequence)
		}
		b.Yield()
		later(5 * registry.PulseInterval)
		b.publish("acme", "route", "3")
		synctest.Wait()
		if n := b.beaconCount(); n != 12 || len(b.of("all")) != 2 {
			t.Errorf("%d beacons and %d events after the lead has ended", n, len(b.of("all")))
		}
	})
}

// TestTakeover: who takes the lead says again what the leader before may have left
// unsaid, and nothing older.
func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, selector(t, "shop-*"))
		defer b.stop()
		b.publish("acme", "old", "1")
		later(11 * time.Second)
		two := b.publish("shop-a", "route", "2")
		later(3 * time.Second)
		b.publish("acme", "route", "3")
		synctest.Wait()
		b.Lead(1)
		wantChain(t, b.of("all"), 1)
		if n := len(b.of("all")); n != 2 {
			t.Errorf("%d events of all, want 2", n)
		}
		if got := b.of(selector(t, "shop-*").Group()); len(got) != 1 || got[0].Revision != two.Revision {
			t.Errorf("events of the group: %+v", got)
		}
		if s := b.Stats(); !s.Leading || s.Term != 1 || s.Takeovers != 1 || s.Republished != 3 || s.Head != 3 || s.Groups != 2 || !s.Running {
			t.Errorf("stats: %+v", s)
		}
		if last := b.lastBeacon("all"); last.Head != 3 || last.Term != 1 {
			t.Errorf("beacon: %+v", last)
		}
	})
}

// TestTakeoverAfterAReset: what was before a snapshot is not said again, for it may be
// of another fleet.
func TestTakeoverAfterAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.publish("acme", "route", "1")
		synctest.Wait()
		b.stop()
		b.Reset(registry.State{Fleet: "F2", Head: 7})
		b.Lead(1)
		if n := len(b.of("all")); n != 0 || b.Stats().Republished != 0 {
			t.Errorf("%d events from before the snapshot", n)
		}
	})
}

// TestAStaleReplicaSaysNothingOfItself when it takes the lead, until it knows that it
// is up to date.
func TestAStaleReplicaSaysNothingOfItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.publish("acme", "route", "1")
		synctest.Wait()
		b.stop()
		later(2*registry.PulseInterval + time.Millisecond)
		b.Lead(1)
		if n := b.beaconCount(); n != 0 {
			t.Errorf("%d beacons of a replica that does not follow", n)
		}
		b.Pulse()
		if n := b.beaconCount(); n != 1 {
			t.Errorf("%d beacons once it does, want 1", n)
		}
	})
}

// TestBacklogIsBounded: a flood leaves the last 8 MiB.
func TestBacklogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.stop()
		const each, count = 60 << 10, 300
		for i := range count {
			b.publish("acme", "route", strings.Repeat("x", each)+time.Duration(i).String())
		}
		synctest.Wait()
		b.Lead(1)
		got := b.of("all")
		if n := len(got); n*each > 8<<20 || n*each < 7<<20 || got[n-1].Revision != count {
			t.Errorf("%d events of %d bytes, the last of revision %d", n, each, got[n-1].Revision)
		}
		wantChain(t, got, got[0].Revision-1)
	})
}

// TestAnEventThatIsLostShows in the next one, and in the next beacon.
func TestAnEventThatIsLostShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.stop()
		b.Lead(1)
		b.publish("acme", "route", "1")
		synctest.Wait()
		b.set(true)
		b.publish("acme", "route", "2")
		synctest.Wait()
		b.set(false)
		b.publish("acme", "route", "3")
		synctest.Wait()
		if got := b.of("all"); len(got) != 2 || got[1].Revision != 3 || got[1].Previous != 2 {
			t.Errorf("events: %+v; want 3 to follow 2", got)
		}
	})
}

// TestAfterAnOutage that the store has forgotten, the chain goes on where the store is.
func TestAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shops := selector(t, "shop-*")
		b := newBench(t, shops)
		b.publish("shop-a", "route", "1")
		synctest.Wait()
		b.stop()
		b.publish("shop-a", "route", "2")
		b.publish("acme", "route", "3")
		b.store.Compact(3)
		second := newReplica(t, b.store, shops)
		defer second.stop()
		second.Lead(2)
		last := b.publish("shop-b", "route", "4")
		synctest.Wait()
		if got := second.of(shops.Group()); len(got) != 1 || got[0].Previous != 2 || got[0].Revision != last.Revision {
			t.Errorf("events of the group: %+v; want %d to follow 2", got, last.Revision)
		}
		if got := second.of("all"); len(got) != 1 || got[0].Previous != 3 {
			t.Errorf("events of all: %+v; want one that follows 3", got)
		}
	})
}

// Of what an object needs, an event has what came along with the transaction.
func TestSourcesThatComeAlong(t *testing.T) {
	one, two := []byte("return 1"), []byte("return 2")
	events := &recorder{}
	f := feed.New(feed.Config{Mirror: mirror.New(sealer, quiet()), Publisher: events, Log: quiet()})
	f.Reset(registry.State{Fleet: "f"})
	f.Lead(1)
	release := func(name string, revision script.Revision, source []byte) script.Release {
		v := script.Version{Number: 1, Digest: script.DigestOf(source), Size: len(source)}
		return script.Release{
			Name: script.Name{Tenant: "acme", Script: name}, Revision: revision, Active: v, Latest: 1, Enabled: true, Retained: []script.Version{v},
		}
	}
	f.Apply(registry.Transaction{
		Revision: 1, Releases: []script.Release{release("a", 1, one), release("b", 1, two)},
		Sources: []registry.Source{{Digest: script.DigestOf(one), Content: one}},
	})
	got := events.of("all")
	if len(got) != 1 || len(got[0].Sources) != 1 || string(got[0].Sources[0].Content) != string(one) {
		t.Fatalf("%+v, want one event with the first source", got)
	}
}
