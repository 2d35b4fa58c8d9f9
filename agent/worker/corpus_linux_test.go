package worker_test

import (
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine/enginetest/corpus"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestCorpus runs the scripts that only a process of its own contains, many calls at a
// time: another tenant's calls keep being right, in the agent's own process and in one
// of theirs, and the tenant of the script has a process afterwards.
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
			acme.Settings.MemoryBytes, acme.Settings.CPU = 128<<20, 1000
			w := newWorld(t, nil, acme, walled("shop"))
			w.publishWith(script.MaxLimits(), "lua", "acme/hostile", s.Source)
			w.publish("lua", "acme/good", `function handle(a) return a end`)
			w.publish("lua", "shop/cart", `function handle(a) return "cart " .. a end`)
			w.publish("lua", "news/page", `function handle(a) return "page " .. a end`)
			for _, ref := range []string{"acme/good", "shop/cart", "news/page"} {
				w.answer(ref, `1`)
			}

			var done atomic.Bool
			var right atomic.Int64
			var others sync.WaitGroup
			for ref, want := range map[string]string{"shop/cart": `"cart x"`, "news/page": `"page x"`} {
				others.Go(func() {
					for !done.Load() {
						if got, err := w.call(ref, `"x"`); err != nil || got != want {
							t.Errorf("%s: %s, %v", ref, got, err)
							return
						}
						right.Add(1)
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
			if got := w.answer("acme/good", `2`); got != "2" {
				t.Errorf("afterwards: %s", got)
			}
			if !strings.Contains(w.log.String(), "bounded by") {
				t.Error("the log does not say how processes are bounded")
			}
			t.Logf("%d calls of others were right; hostile ones ended %v; %v processes were replaced",
				right.Load(), kinds, w.metric("scriptorium_agent_worker_restarts_total"))
		})
	}
	if ran == 0 {
		t.Error("the corpus has no such script")
	}
}
