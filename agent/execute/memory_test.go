package execute_test

import (
	"context"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/garbage"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

// hoarders are scripts that keep as much memory as they can, each in another way.
var hoarders = map[string]string{
	"strings":   `local t = {} for i = 1, 1e9 do t[i] = ("x"):rep(100000) .. i end`,
	"tables":    `local t = {} for i = 1, 1e9 do t[i % 8000] = {i, {i}, n = {i}} end`,
	"names":     `local t = {} for i = 1, 1e9 do t["n" .. i] = i end`,
	"JSON":      `local t, s = {}, "[" .. ("[1],"):rep(5000) .. "1]" for i = 1, 1e9 do t[i] = json.decode(s) end`,
	"failures":  `local s = ("x"):rep(4000000) while true do pcall(string.format, "%s%d", s, {}) pcall(table.concat, {s, {}}) end`,
	"iterators": `local t = {} for i = 1, 1e9 do t[i] = ("x"):gmatch("x") end`,
	"closures":  `local t = {} for i = 1, 1e9 do t[i] = function() return t, i end end`,
	"arguments": `local t = {} for i = 1, 1e9 do t[i] = json.encode(a) .. i end`,
}

// TestOneTenantsMemory has one tenant keep as much memory as it can, on many connections
// and with the highest limits. The heap has no more than its share, as much garbage, and
// some room.
func TestOneTenantsMemory(t *testing.T) {
	n := &node{}
	n.start(t, lua.New(), 64<<20, 3, 200)
	garbage.LeaveRoom(t.Context())
	for name, source := range hoarders {
		n.publish(name, func(r *script.Release) { r.Settings.Limits = script.MaxLimits() }, source)
	}
	var peak atomic.Uint64
	done := make(chan struct{})
	var looks sync.WaitGroup
	looks.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
				metrics.Read(sample)
				peak.Store(max(peak.Load(), sample[0].Value.Uint64()))
			case <-done:
				return
			}
		}
	})
	var calls sync.WaitGroup
	names := make([]string, 0, len(hoarders))
	for name := range hoarders {
		names = append(names, name)
	}
	for i := range 72 {
		calls.Go(func() {
			for j := range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				err := n.Execute(ctx, &gateway.Call{Script: "acme/" + names[(i+j)%len(names)], Args: [][]byte{[]byte(`{"a":"` + strings.Repeat("x", 500_000) + `"}`)}}, &gateway.Reply{})
				cancel()
				if kind := script.KindOf(err); kind != script.Limit && kind != script.Timeout && kind != script.Overloaded {
					t.Errorf("%v", err)
				}
			}
		})
	}
	calls.Wait()
	close(done)
	looks.Wait()
	share := uint64(script.DefaultTenantSettings().MemoryBytes)
	if most := 3*share + garbage.Room; peak.Load() > most {
		t.Errorf("the heap had %d MiB, want at most %d", peak.Load()>>20, most>>20)
	}
	t.Logf("the heap had %d MiB at most", peak.Load()>>20)
}
