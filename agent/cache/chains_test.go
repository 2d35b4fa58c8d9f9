package cache_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/script"
)

// triggered returns a release of a version of the script, which runs on the event.
func triggered(name string, version uint64, event string, priority int, change ...func(*script.Release)) *cache.Release {
	parsed, err := script.ParseName(name)
	if err != nil {
		panic(err)
	}
	r := script.Release{
		Name: parsed, Revision: script.Revision(version), Enabled: true, Latest: version,
		Active:   script.Version{Number: version, Digest: script.DigestOf([]byte(name)), Engine: "lua"},
		Settings: script.Settings{Spec: script.Spec{Trigger: script.Trigger{Event: event, Priority: priority}}},
	}
	r.Retained = []script.Version{r.Active}
	for _, c := range change {
		c(&r)
	}
	return cache.NewReleaseOn(script.Agent{Name: "n"}, r)
}

func chainOf(t *cache.Table, tenant, event string) string {
	releases, count := t.Chain(tenant, event)
	names := make([]string, 0, len(releases))
	for _, r := range releases {
		names = append(names, fmt.Sprintf("%s@%d", r.Name.Script, r.Runs.Number))
	}
	return fmt.Sprintf("%d: %s", count, strings.Join(names, " "))
}

func TestChains(t *testing.T) {
	table := cache.NewTable()
	step := func(what, want string, put []*cache.Release, gone ...string) {
		t.Helper()
		var names []script.Name
		for _, name := range gone {
			n, _ := script.ParseName(name)
			names = append(names, n)
		}
		table.Update(put, names)
		if got := chainOf(table, "acme", "pre"); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	disabled := func(r *script.Release) { r.Enabled = false }
	untried := func(r *script.Release) {
		r.Candidate = &script.Candidate{Version: r.Active, Spec: r.Settings.Spec, Attempt: 1}
	}
	step("nothing", "0: ", nil)
	step("higher first, then by name", "4: d@1 b@1 c@1 a@1", []*cache.Release{
		triggered("acme/a", 1, "pre", -1), triggered("acme/c", 1, "pre", 0), triggered("acme/b", 1, "pre", 0), triggered("acme/d", 1, "pre", 9),
		triggered("shop/x", 1, "pre", 0), triggered("acme/y", 1, "post", 0), triggered("acme/z", 1, "", 0),
	})
	step("another priority", "4: b@1 c@1 d@2 a@1", []*cache.Release{triggered("acme/d", 2, "pre", -1), triggered("acme/a", 1, "pre", -2)})
	step("another event, and disabled", "2: c@1 a@1", []*cache.Release{triggered("acme/d", 3, "post", 0), triggered("acme/b", 1, "pre", 0, disabled)})
	step("enabled, and one that is untried", "3: b@1 c@1 a@1", []*cache.Release{triggered("acme/b", 1, "pre", 0), triggered("acme/e", 1, "pre", 0, untried)})
	step("gone and there in one change", "2: f@1 b@1", []*cache.Release{triggered("acme/f", 1, "pre", 5)}, "acme/c", "acme/a", "acme/none")
	candidate := func(threshold uint32) func(*script.Release) {
		return func(r *script.Release) {
			c := &script.Candidate{Attempt: 1, Threshold: threshold}
			c.Version, c.Spec = r.Active, script.Spec{Trigger: script.Trigger{Event: "post"}}
			c.Version.Number, c.Version.Spec = 2, script.DigestOf([]byte("x"))
			r.Candidate, r.Retained = c, append(r.Retained, c.Version)
		}
	}
	step("a candidate that runs elsewhere", "2: f@1 b@1", []*cache.Release{triggered("acme/f", 1, "pre", 5, candidate(0))})
	step("a candidate that runs here has its own trigger", "1: b@1", []*cache.Release{triggered("acme/f", 1, "pre", 5, candidate(everywhere))})
	if got := chainOf(table, "acme", "post"); got != "3: d@3 f@2 y@1" {
		t.Errorf("the other event: %s", got)
	}
	step("the last ones", "0: ", nil, "acme/b", "acme/f")
}

// TestTooManyOfAnEvent: the agent does not look at each call through more than may be.
func TestTooManyOfAnEvent(t *testing.T) {
	table := cache.NewTable()
	put := make([]*cache.Release, 0, script.MaxEventLive+1)
	for i := range script.MaxEventLive + 1 {
		put = append(put, triggered(fmt.Sprintf("acme/s%d", i), 1, "pre", 0))
	}
	table.Update(put, nil)
	if releases, count := table.Chain("acme", "pre"); releases != nil || count != len(put) {
		t.Errorf("%d of %d", len(releases), count)
	}
	table.Update(nil, []script.Name{put[7].Name})
	if releases, count := table.Chain("acme", "pre"); len(releases) != script.MaxEventLive || count != len(releases) {
		t.Errorf("without one: %d of %d", len(releases), count)
	}
}

func TestEditions(t *testing.T) {
	table := cache.NewTable()
	table.KeepPast(3)
	number := func(version uint64) uint64 {
		if r := table.Edition("acme/a", version); r != nil {
			return r.Runs.Number
		}
		return 0
	}
	for version := range uint64(6) {
		table.Update([]*cache.Release{triggered("acme/a", version+1, "pre", 0)}, nil)
		table.Update([]*cache.Release{triggered("acme/no-event", version+1, "", 0)}, nil)
	}
	for version, want := range map[uint64]uint64{1: 0, 2: 0, 3: 3, 4: 4, 5: 5, 6: 6, 7: 0} {
		if got := number(version); got != want {
			t.Errorf("version %d: %d", version, got)
		}
	}
	table.Update(nil, []script.Name{{Tenant: "acme", Script: "a"}})
	if number(6) != 6 || number(3) != 0 {
		t.Error("a script that is gone was live a moment ago")
	}
	if cache.NewTable().Edition("acme/a", 1) != nil {
		t.Error("an empty table has an edition")
	}
}

// BenchmarkChain looks up a chain of two among so many scripts, each of which has an event.
func BenchmarkChain(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		table := filledChains(n)
		attributes := script.AttributesOf("GET", "shop.example", "/cart", nil)
		b.Run(fmt.Sprint("scripts=", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				releases, _ := table.Chain("acme", "pre-route")
				matching := 0
				for _, r := range releases {
					if r.Trigger.Match.Matches(&attributes) {
						matching++
					}
				}
				if matching != 2 {
					b.Fatal(matching)
				}
			}
		})
	}
}

// BenchmarkChangeOfAChain replaces one script of a chain among so many scripts.
func BenchmarkChangeOfAChain(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		table := filledChains(n)
		put := []*cache.Release{triggered("acme/gate", 2, "pre-route", 10)}
		b.Run(fmt.Sprint("scripts=", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				table.Update(put, nil)
			}
		})
	}
}

func filledChains(n int) *cache.Table {
	table := cache.NewTable()
	match := func(r *script.Release) {
		r.Settings.Trigger.Match = script.Match{Hosts: []string{"shop.example"}, PathPrefixes: []string{"/cart"}, Methods: []string{"GET"}}
	}
	put := []*cache.Release{triggered("acme/gate", 1, "pre-route", 10, match), triggered("acme/price", 1, "pre-route", 0, match)}
	for i := range n - len(put) {
		put = append(put, triggered(fmt.Sprintf("tenant-%d/s%d", i%1000, i), 1, fmt.Sprintf("event-%d", i/1000), 0))
	}
	table.Update(put, nil)
	return table
}
