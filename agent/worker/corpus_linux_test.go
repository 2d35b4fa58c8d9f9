package worker_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine/enginetest/corpus"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// peaks is the most that was seen, in bytes.
type peaks struct{ process, agent int64 }

// watchMemory looks how much memory the tenant's processes and this one, which is the
// agent here, have, until stop is called.
func (w *world) watchMemory(tenant string) (stop func() peaks) {
	done, peak := make(chan struct{}), make(chan peaks)
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		var p peaks
		for {
			for _, s := range w.pool.Status() {
				if s.Tenant == tenant && s.PID != 0 {
					p.process = max(p.process, s.Memory, statusField(s.PID, "VmHWM")<<10)
				}
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			p.agent = max(p.agent, int64(m.HeapInuse))
			select {
			case <-done:
				peak <- p
				return
			case <-tick.C:
			}
		}
	}()
	return func() peaks {
		close(done)
		return <-peak
	}
}

// statusField returns a number that the kernel says of a process, or 0 if it has ended.
func statusField(pid int, name string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return n
		}
	}
	return 0
}

// Bounds of what a hostile script may do. Of memory, in bytes: its process may have its
// cap, and what it had before that is not counted; the agent's heap is hardly touched.
const (
	corpusCap  = 128 << 20
	uncounted  = 64 << 20
	agentGrows = 64 << 20
	// manyRight is how often each of the others is answered at least: on a busy machine
	// some of that comes when the hostile calls have ended.
	manyRight = 50
)

// TestCorpus runs the scripts that only a process of its own contains, many calls at a
// time: another tenant's calls keep being right, in the agent's own process and in one
// of theirs, memory stays bounded, and the tenant of the script has a process afterwards.
func TestCorpus(t *testing.T) {
	scripts, err := corpus.Read(os.DirFS("../../engine/lua/testdata/corpus"))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, s := range scripts {
		if !s.ProcessOnly {
			continue
		}
		ran++
		t.Run(s.String(), func(t *testing.T) {
			acme := walled("acme")
			acme.Settings.MemoryBytes, acme.Settings.CPU = corpusCap, 1000
			w := newWorld(t, nil, acme, walled("shop"))
			w.publishWith(script.MaxLimits(), "lua", "acme/hostile", s.Source)
			w.publish("lua", "acme/good", `function handle(a) return a end`)
			w.publish("lua", "shop/cart", `function handle(a) return "cart " .. a end`)
			w.publish("lua", "news/page", `function handle(a) return "page " .. a end`)
			for _, ref := range []string{"acme/good", "shop/cart", "news/page"} {
				w.answer(ref, `1`)
			}

			var before runtime.MemStats
			runtime.ReadMemStats(&before)
			memory := w.watchMemory("acme")
			var done atomic.Bool
			right := map[string]*atomic.Int64{}
			var others sync.WaitGroup
			for ref, want := range map[string]string{"shop/cart": `"cart x"`, "news/page": `"page x"`} {
				right[ref] = &atomic.Int64{}
				n := right[ref]
				others.Go(func() {
					for !done.Load() || n.Load() < manyRight {
						if got, err := w.call(ref, `"x"`); err != nil || got != want {
							t.Errorf("%s: %s, %v", ref, got, err)
							return
						}
						n.Add(1)
					}
				})
			}
			var hostile sync.WaitGroup
			var mu sync.Mutex
			kinds := map[script.Kind]int{}
			for range 4 {
				hostile.Go(func() {
					for range 2 {
						_, err := w.callWithin(2*time.Second, "acme/hostile")
						kind := script.KindOf(err)
						if kind == script.Internal || kind == "" {
							t.Errorf("a hostile call: %v", err)
						}
						mu.Lock()
						kinds[kind]++
						mu.Unlock()
					}
				})
			}
			hostile.Wait()
			done.Store(true)
			others.Wait()
			peak := memory()
			if most := int64(corpusCap + uncounted); peak.process > most && !needs.Race {
				t.Errorf("the process had %d MiB under a cap of %d MiB", peak.process>>20, corpusCap>>20)
			}
			if peak.agent > int64(before.HeapInuse)+agentGrows {
				t.Errorf("the agent's heap grew from %d to %d MiB", before.HeapInuse>>20, peak.agent>>20)
			}
			if got := w.answer("acme/good", `2`); got != "2" {
				t.Errorf("afterwards: %s", got)
			}
			if !strings.Contains(w.log.String(), "bounded by") {
				t.Error("the log does not say how processes are bounded")
			}
			t.Logf("%d and %d calls of others were right; hostile ones ended %v; %v processes were replaced; the process had at most %d MiB, the agent's heap %d",
				right["shop/cart"].Load(), right["news/page"].Load(), kinds, w.metric("scriptorium_agent_worker_restarts_total"), peak.process>>20, peak.agent>>20)
		})
	}
	if ran == 0 {
		t.Error("the corpus has no such script")
	}
}
