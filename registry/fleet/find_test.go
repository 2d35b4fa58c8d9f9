package fleet_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (b *bench) find(s fleet.Search) fleet.Found {
	b.t.Helper()
	s.Limit = cmp.Or(s.Limit, 1_000_000)
	found, err := b.Find(b.t.Context(), s)
	if err != nil {
		b.t.Fatal(err)
	}
	return found
}

func namesOf(scripts []fleet.ScriptStatus) []string {
	names := make([]string, 0, len(scripts))
	for i := range scripts {
		names = append(names, scripts[i].Release.Name.String())
	}
	return names
}

// scattered is a fleet of scripts in any state, on agents that have come to any revision.
func scattered(t *testing.T, r *rand.Rand, scripts int) *bench {
	t.Helper()
	b := newBench(t)
	revision := script.Revision(10)
	tenants := []string{"a", "a-b", "a0", "acme", "b"}
	for i := range scripts {
		name := script.Name{Tenant: tenants[r.IntN(len(tenants))], Script: fmt.Sprint("s", i, []string{"", "-route", "-auth"}[r.IntN(3)])}
		revision++
		release := b.release(name, revision)
		if r.IntN(3) == 0 {
			release = b.candidate(name, revision, uint64(revision), 0)
			release.Candidate.Failed = []string{"", "boom"}[r.IntN(2)]
		} else if r.IntN(4) == 0 {
			release.Hold = &script.Hold{}
		}
		release.Enabled, release.Deleted = r.IntN(5) > 0, r.IntN(8) == 0
		release.Settings.Trigger.Event = []string{"", "pre-route"}[r.IntN(2)]
		release.Active.Engine = []string{"lua", "rego"}[r.IntN(2)]
		b.apply(release)
	}
	releases := b.Status(fleet.Filter{}).Scripts
	for i := range 20 {
		report := b.report(fmt.Sprint("n", i), 11+script.Revision(r.Int64N(int64(revision-10))))
		for range r.IntN(4) {
			failed := &releases[r.IntN(len(releases))].Release
			if c := failed.Candidate; c != nil && r.IntN(2) == 0 {
				report.Trials = append(report.Trials, fleet.Trial{
					Name: failed.Name, Version: c.Version.Number, Attempt: c.Attempt, Tested: true, Err: script.Errorf(script.Script, "", "boom"),
				})
				continue
			}
			report.Failures = append(report.Failures, fleet.Failure{
				Name: failed.Name, Revision: failed.Revision - script.Revision(r.IntN(2)), Err: script.Errorf(script.Script, "", "boom"),
			})
		}
		b.Heard(report)
	}
	if r.IntN(2) == 0 {
		b.Apply(registry.Transaction{Revision: revision + 1, Unreadable: []registry.Unreadable{
			{Key: "releases/" + releases[0].Release.Name.String(), Revision: revision + 1}, {Key: "releases/acme/lost", Revision: revision + 1},
		}})
	}
	b.pass(10 * time.Second)
	return b
}

// inState says the same of a status as Find by the state.
func inState(p *fleet.ScriptStatus, state fleet.State) bool {
	c := p.Release.Candidate
	switch state {
	case fleet.WithCandidate:
		return c != nil && c.Failed == ""
	case fleet.CandidateFailed:
		return c != nil && c.Failed != ""
	case fleet.Held:
		return p.Release.Hold != nil
	case fleet.Disabled:
		return !p.Release.Enabled && !p.Release.Deleted
	case fleet.Failing:
		return p.Failed > 0
	case fleet.NotConverged:
		return !p.Converged
	case fleet.Unreadable:
		return p.Unreadable != nil
	}
	return true
}

// TestFindsWhatTheStatusHas: of random fleets, Find returns what a look at the status of all scripts does.
func TestFindsWhatTheStatusHas(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 20 {
		b := scattered(t, r, 200)
		all := b.Status(fleet.Filter{}).Scripts
		for range 60 {
			s := fleet.Search{
				Tenant: []string{"", "", "a", "acme"}[r.IntN(4)], Event: []string{"", "", "pre-route"}[r.IntN(3)], Engine: []string{"", "", "rego"}[r.IntN(3)],
				Words: [][]string{nil, {"route"}, {"a/", "auth"}, {"s1"}}[r.IntN(4)],
				State: fleet.State(r.IntN(int(fleet.Unreadable) + 1)), Order: fleet.Order(r.IntN(2)), Descending: r.IntN(2) == 0,
			}
			if r.IntN(2) == 0 {
				s.Readable = func(tenant string) bool { return tenant == "a" || tenant == "b" }
			}
			want := slices.DeleteFunc(slices.Clone(all), func(p fleet.ScriptStatus) bool {
				name := p.Release.Name
				return s.Tenant != "" && name.Tenant != s.Tenant || s.Readable != nil && !s.Readable(name.Tenant) || !inState(&p, s.State) ||
					s.Event != "" && p.Release.Settings.Trigger.Event != s.Event || s.Engine != "" && p.Release.Active.Engine != s.Engine ||
					slices.ContainsFunc(s.Words, func(word string) bool { return !strings.Contains(name.String(), word) })
			})
			if s.Order == fleet.ByChange {
				slices.SortStableFunc(want, func(x, y fleet.ScriptStatus) int {
					if s.Descending {
						x, y = y, x
					}
					return cmp.Compare(x.Release.Revision, y.Release.Revision)
				})
			} else if s.Descending {
				slices.Reverse(want)
			}
			got := b.find(s)
			if !slices.Equal(namesOf(got.Scripts), namesOf(want)) || got.Total != len(want) {
				t.Fatalf("%+v: %d of %d: %v\nwant %v", s, len(got.Scripts), got.Total, namesOf(got.Scripts), namesOf(want))
			}
			s.Offset, s.Limit = r.IntN(250), 1+r.IntN(50)
			page := b.find(s)
			from := min(s.Offset, len(want))
			if part := want[from:min(from+s.Limit, len(want))]; !slices.Equal(namesOf(page.Scripts), namesOf(part)) || page.Total != len(want) {
				t.Fatalf("%+v: %v of %d, want %v of %d", s, namesOf(page.Scripts), page.Total, namesOf(part), len(want))
			}
		}
	}
}

// TestFindByFailing: what fails on most agents comes first, and what fails on none is in the order of the names.
func TestFindByFailing(t *testing.T) {
	b := newBench(t)
	for i, name := range []string{"one", "none", "three"} {
		b.commit(script.Name{Tenant: "acme", Script: name}, script.Revision(11+i))
	}
	for i := range 3 {
		r := b.report(fmt.Sprint("n", i), 13)
		r.Failures = []fleet.Failure{{Name: script.Name{Tenant: "acme", Script: "three"}, Revision: 13, Err: &script.Error{Kind: script.Script}}}
		if i == 0 {
			r.Failures = append(r.Failures, fleet.Failure{Name: script.Name{Tenant: "acme", Script: "one"}, Revision: 11, Err: &script.Error{Kind: script.Script}})
		}
		b.Heard(r)
	}
	if got, want := namesOf(b.find(fleet.Search{Order: fleet.ByFailing, Descending: true}).Scripts), []string{"acme/three", "acme/one", "acme/none", "acme/route"}; !slices.Equal(got, want) {
		t.Errorf("most first: %v, want %v", got, want)
	}
	if got, want := namesOf(b.find(fleet.Search{Order: fleet.ByFailing}).Scripts), []string{"acme/none", "acme/route", "acme/one", "acme/three"}; !slices.Equal(got, want) {
		t.Errorf("fewest first: %v, want %v", got, want)
	}
}

// TestFindGoesWithTheTime: what comes, changes, goes, and comes again is found as it is now.
func TestFindGoesWithTheTime(t *testing.T) {
	b := newBench(t)
	late := script.Name{Tenant: "acme", Script: "late"}
	want := func(words string, names ...string) {
		t.Helper()
		if got := namesOf(b.find(fleet.Search{Words: strings.Fields(words)}).Scripts); !slices.Equal(got, names) {
			t.Errorf("%q: %v, want %v", words, got, names)
		}
	}
	want("", "acme/route")
	b.commit(late, 11)
	want("", "acme/late", "acme/route")
	gone := b.release(late, 12)
	gone.Deleted = true
	b.apply(gone)
	want("late")
	b.pass(25 * time.Hour)
	b.Sweep()
	b.Sweep()
	b.commit(late, 13)
	want("late", "acme/late")
	b.reset(fleetID, 20, b.release(script.Name{Tenant: "acme", Script: "other"}, 20))
	want("", "acme/other")
	b.reset("F2", 5, b.release(route, 5))
	want("", "acme/route")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Find(ended, fleet.Search{}); err == nil {
		t.Error("a search that nobody waits for goes on")
	}
}

// many is a fleet of so many scripts of 1,000 tenants on 10,000 agents. One of a hundred scripts has a candidate.
func many(tb testing.TB, scripts int) *fleet.Fleet {
	tb.Helper()
	f := fleet.New(fleet.Config{Settle: time.Nanosecond})
	state := registry.State{Fleet: fleetID, Head: script.Revision(scripts)}
	for i := range scripts {
		r := script.Release{
			Name: script.Name{Tenant: fmt.Sprint("tenant-", i%1000), Script: fmt.Sprint("script-", i)}, Revision: script.Revision(i + 1),
			Active: script.Version{Number: 1, Engine: "lua"}, Latest: 2, Enabled: true,
		}
		if i%100 == 0 {
			r.Candidate = &script.Candidate{Version: script.Version{Number: 2}, Attempt: uint64(i)}
		}
		state.Releases = append(state.Releases, r)
	}
	f.Reset(state)
	for i := range 10_000 {
		f.Heard(fleet.Report{Fleet: fleetID, Agent: fmt.Sprint("n", i), Incarnation: "1", Sequence: 1, Activated: state.Head - script.Revision(i%3)})
	}
	return f
}

// BenchmarkFind is the cost of a window of 100 scripts, and the longest time that reports wait for one.
func BenchmarkFind(b *testing.B) {
	for _, scripts := range []int{100, 10_000, 100_000} {
		f := many(b, scripts)
		for _, test := range []struct {
			name string
			s    fleet.Search
		}{
			{"names", fleet.Search{}},
			{"middle", fleet.Search{Offset: scripts / 2}},
			{"search", fleet.Search{Words: []string{"7"}}},
			{"changed", fleet.Search{Order: fleet.ByChange, Descending: true}},
			{"candidates", fleet.Search{State: fleet.WithCandidate}},
			{"not-converged", fleet.Search{State: fleet.NotConverged}},
			{"failing", fleet.Search{Order: fleet.ByFailing, Descending: true}},
		} {
			b.Run(fmt.Sprintf("%s/%d", test.name, scripts), func(b *testing.B) {
				test.s.Limit = 100
				done, longest := make(chan struct{}), make(chan time.Duration)
				go func() {
					var most time.Duration
					for n := uint64(2); ; n++ {
						select {
						case <-done:
							longest <- most
							return
						case <-time.After(200 * time.Microsecond):
						}
						began := time.Now()
						f.Heard(fleet.Report{Fleet: fleetID, Agent: "n1", Incarnation: "1", Sequence: n, Activated: script.Revision(scripts)})
						most = max(most, time.Since(began))
					}
				}()
				for b.Loop() {
					test.s.Caller = fmt.Sprint(b.N)
					if _, err := f.Find(b.Context(), test.s); err != nil {
						b.Fatal(err)
					}
				}
				close(done)
				b.ReportMetric(float64((<-longest).Microseconds())/1000, "ms-wait")
			})
		}
	}
}
