package cache_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// full returns a release in which everything is set.
func full(i int) script.Release {
	one := script.Version{Number: 1, Digest: script.DigestOf(fmt.Append(nil, "one", i)), Engine: "lua", Entrypoint: "handle", Size: 3}
	two := script.Version{Number: 2, Digest: script.DigestOf(fmt.Append(nil, "two", i)), Engine: "lua", Entrypoint: "other", Size: 4}
	return script.Release{
		Name: script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}, Revision: script.Revision(i + 1),
		Active: two, Latest: 2, Pinned: i%2 == 0, Enabled: true, Retained: []script.Version{one, two},
		Settings: script.Settings{
			Spec: script.Spec{
				Limits:  script.Limits{Instructions: 7, Timeout: time.Second},
				Trigger: script.Trigger{Event: "http-request"},
				Config:  []byte(`{"a":1}`),
			},
			HistoryLimit: 4,
		},
		Owner: "somebody", ChangedAt: time.Now(),
	}
}

// sumOf adds up what the registry adds up.
func sumOf(releases ...script.Release) (sum wire.Sum) {
	for _, r := range releases {
		sum.Add(wire.Fingerprint(r))
	}
	return sum
}

func TestChecksumIsTheRegistrys(t *testing.T) {
	table := cache.NewTable()
	var all []script.Release
	var live []*cache.Release
	for i := range 100 {
		all = append(all, full(i))
		live = append(live, cache.NewRelease(all[i]))
	}
	all = append(all, script.Release{Name: script.Name{Tenant: "acme", Script: "bare"}, Revision: 1})
	table.Update(append(live, cache.NewRelease(all[100])), nil)
	for _, again := range []int{0, 1, 50, 1 << 40} {
		if got, want := table.Checksum(again), sumOf(all...); got != want {
			t.Errorf("looking at %d again: %v, want %v", again, got, want)
		}
	}
	if got, want := table.Checksum(0, "acme/s0", "acme/unknown", "acme/bare"), sumOf(all[1:100]...); got != want {
		t.Errorf("with some left out: %v, want %v", got, want)
	}
	newer := full(7)
	newer.Revision, newer.Enabled = 1000, false
	table.Update([]*cache.Release{cache.NewRelease(newer)}, []script.Name{full(0).Name, {Tenant: "acme", Script: "unknown"}})
	all[7] = newer
	if got, want := table.Checksum(0), sumOf(all[1:]...); got != want {
		t.Errorf("after a change: %v, want %v", got, want)
	}
	table.Update(nil, []script.Name{all[100].Name})
	for i := range 100 {
		table.Update(nil, []script.Name{full(i).Name})
	}
	if got := table.Checksum(0); got != (wire.Sum{}) {
		t.Errorf("of nothing: %v", got)
	}
}

func TestAFlippedBitShowsWithinTwoLooks(t *testing.T) {
	const scripts, look = 8192, 4096
	for name, flip := range map[string]func(*cache.Release){
		"name":        func(r *cache.Release) { r.Name.Script = "t" + r.Name.Script[1:] },
		"revision":    func(r *cache.Release) { r.Revision ^= 1 << 50 },
		"number":      func(r *cache.Release) { r.Runs.Number ^= 2 },
		"digest":      func(r *cache.Release) { r.Runs.Digest[31] ^= 128 },
		"entrypoint":  func(r *cache.Release) { r.Runs.Entrypoint = "oTher" },
		"pinned":      func(r *cache.Release) { r.Pinned = !r.Pinned },
		"enabled":     func(r *cache.Release) { r.Enabled = !r.Enabled },
		"trigger":     func(r *cache.Release) { r.Trigger.Event = "http-requesu" },
		"a limit":     func(r *cache.Release) { r.Limits.Instructions ^= 1 },
		"a default":   func(r *cache.Release) { r.Limits.ResultBytes ^= 1 << 20 },
		"config":      func(r *cache.Release) { r.Config[3] ^= 1 },
		"no config":   func(r *cache.Release) { r.Config = nil },
		"other limit": func(r *cache.Release) { r.Limits.Timeout++ },
	} {
		t.Run(name, func(t *testing.T) {
			table := cache.NewTable()
			var live []*cache.Release
			var want wire.Sum
			for i := range scripts {
				r := full(i)
				want.Add(wire.Fingerprint(r))
				live = append(live, cache.NewRelease(r))
			}
			table.Update(live, nil)
			table.Checksum(look / 3) // some were looked at before
			const at = "acme/s4711"
			if _, sound := table.Check(at); !sound {
				t.Error("unsound before")
			}
			flip(table.Get(at))
			if sum, sound := table.Check(at); sound || sum == wire.Fingerprint(full(4711)) {
				t.Error("sound after")
			}
			if first, second := table.Checksum(look), table.Checksum(look); first == want && second == want {
				t.Error("it does not show")
			}
			if _, sound := table.Check(at); sound {
				t.Error("sound after a look")
			}
			table.Update([]*cache.Release{cache.NewRelease(full(4711))}, nil)
			if table.Checksum(look) != want {
				t.Error("it does not heal")
			}
		})
	}
}

func BenchmarkChecksum4096(b *testing.B) {
	table := cache.NewTable()
	var live []*cache.Release
	for i := range 100_000 {
		live = append(live, cache.NewRelease(full(i)))
	}
	table.Update(live, nil)
	for b.Loop() {
		table.Checksum(4096)
	}
}
