package callstats_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/callstats"
)

// BenchmarkEnded is what a call costs of a script that has a place, and of one that has none, if one call ends at a
// time and if all processors end calls of the same script.
func BenchmarkEnded(b *testing.B) {
	for _, bench := range []struct {
		name    string
		scripts int // that have a place
	}{{"place", 2}, {"other", 1}} {
		w := newWorld(b, callstats.Config{Scripts: bench.scripts}, 2)
		w.call("acme/s0", "")
		e := w.ended("acme/s1", "")
		run := func(b *testing.B) {
			b.Helper()
			b.ReportAllocs()
			for b.Loop() {
				_ = w.stats.Ended(b.Context(), e)
			}
		}
		b.Run(bench.name, run)
		b.Run(bench.name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					_ = w.stats.Ended(b.Context(), e)
				}
			})
		})
	}
}
