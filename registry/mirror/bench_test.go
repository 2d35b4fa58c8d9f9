package mirror_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/memtest"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/mirror"
	"github.com/scriptorium-dev/scriptorium/script"
)

// large returns so many releases of a thousand tenants, each with three versions.
func large(n int) registry.State {
	state := registry.State{Fleet: fleet, Heads: map[string]script.Revision{}}
	for i := range n {
		tenant, revision := fmt.Sprint("tenant-", i%1000), script.Revision(i+1)
		state.Releases = append(state.Releases, release(tenant, fmt.Sprint("script-", i), revision, fmt.Sprint(i, "a"), fmt.Sprint(i, "b"), fmt.Sprint(i, "c")))
		state.Head, state.Heads[tenant] = revision, revision
	}
	return state
}

const many = 100_000

// BenchmarkReset takes in a snapshot of 100,000 releases, and says what each costs
// to keep.
func BenchmarkReset(b *testing.B) {
	state := large(many)
	before := memtest.Heap()
	var m *mirror.Mirror
	for b.Loop() {
		m = newMirror()
		m.Reset(state)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/many, "ns/release")
	unsealed := memtest.Heap()
	for _, e := range m.Changes(mirror.Query{}).Entries {
		if _, err := e.Sealed(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(unsealed-before)/many, "B/release")
	b.ReportMetric(float64(memtest.Heap()-before)/many, "B-sealed/release")
	runtime.KeepAlive(m)
	runtime.KeepAlive(state)
}

// BenchmarkSeal seals one entry, as is done once for each release.
func BenchmarkSeal(b *testing.B) {
	m := newMirror()
	m.Reset(large(1))
	r := release("tenant-0", "script-0", 2, "a", "b", "c")
	for b.Loop() {
		m.Apply(registry.Transaction{Revision: r.Revision, Releases: []script.Release{r}})
		if _, err := m.Entries(wire.ReleaseKey(r.Name))[0].Sealed(); err != nil {
			b.Fatal(err)
		}
		r.Revision++
	}
}

// BenchmarkChanges answers followers of a registry with 100,000 releases.
func BenchmarkChanges(b *testing.B) {
	m := newMirror()
	m.Reset(large(many))
	group := selector(b, "tenant-7*")
	m.Keep(script.Selector{})
	m.Keep(group)
	for name, q := range map[string]mirror.Query{
		"current":       {Fleet: fleet, Since: many},
		"current-group": {Fleet: fleet, Since: many, Tenants: group},
		"100-behind":    {Fleet: fleet, Since: many - 100},
		"full":          {Fleet: fleet},
		"full-group":    {Fleet: fleet, Tenants: group},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.Changes(q)
			}
		})
	}
}
