package execute_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

// BenchmarkShadow calls a script whose calls are all shadowed, beside one without a candidate. cpu-ns/op is the
// processor time of the process for each call, with its shadows.
func BenchmarkShadow(b *testing.B) {
	source, err := os.ReadFile("../../loadtest/route.lua")
	if err != nil {
		b.Fatal(err)
	}
	request := []byte(`{"path":"/api/cart","headers":{"x-beta":"yes","accept":"text/html"},"country":"DE"}`)
	for name, step := range map[string]bool{"none": false, "each": true} {
		b.Run(name, func(b *testing.B) {
			n := &node{}
			n.start(b, lua.New(), 1<<20, 2, 64)
			live := n.shadow("acme", string(source), string(source)+"\n", script.Plan{}, nil)
			if !step {
				live = cache.NewReleaseOn(script.Agent{Name: "n"}, script.Release{Name: live.Name, Revision: 2, Enabled: true, Active: live.Runs, Retained: []script.Version{live.Runs}})
				n.table.Update([]*cache.Release{live}, nil)
			}
			call := &gateway.Call{Script: "acme/route", Args: [][]byte{request}}
			b.ReportAllocs()
			before := processorTime(b)
			reply := &gateway.Reply{}
			for b.Loop() {
				reply.Reset()
				if err := n.Execute(b.Context(), call, reply); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
			if !step {
				return
			}
			if found := live.Shadow.Read(); found != nil {
				b.ReportMetric(float64(found.Compared())/float64(b.N), "shadows/op")
			}
		})
	}
}

func processorTime(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
