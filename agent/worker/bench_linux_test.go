package worker_test

import (
	"bufio"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/worker"
)

const benchScript = `function handle(a) return "hello " .. a end`

// BenchmarkCall compares a call in the agent's own process, one that is forwarded, and
// one over the tenant's own socket, which comes to its process without a second hop.
func BenchmarkCall(b *testing.B) {
	w := newWorld(b, nil, walled("acme"))
	w.publish("lua", "acme/route", benchScript)
	w.publish("lua", "shop/cart", benchScript)
	for _, ref := range []string{"shop/cart", "acme/route"} {
		w.answer(ref, `"x"`)
	}
	for name, ref := range map[string]string{"shared": "shop/cart", "forwarded": "acme/route"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := w.call(ref, `"x"`); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("direct", func(b *testing.B) {
		c, err := net.Dial("unix", w.socket("acme", "resp"))
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		r := bufio.NewReader(c)
		for b.Loop() {
			if _, err := fcall(c, r, "acme/route", `"x"`); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Logf("a process has %d KiB", w.pool.Status()[0].Memory>>10)
}

// BenchmarkReplace kills a tenant's process, and measures how long a connection that is
// made at that moment waits for its answer.
func BenchmarkReplace(b *testing.B) {
	w := newWorld(b, func(c *worker.Config) { c.Quarantine.Deaths = 1 << 30 }, walled("acme"))
	w.publish("lua", "acme/route", benchScript)
	w.answer("acme/route", `"x"`)
	var waits []time.Duration
	pause := time.NewTicker(1500 * time.Millisecond) // deaths of which none is held back, and a spare is ready
	defer pause.Stop()
	for b.Loop() {
		<-pause.C
		pid := w.pid("acme")
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		for answered := false; !answered; { // the dead one may still have taken the first
			c, err := net.Dial("unix", w.socket("acme", "resp"))
			if err != nil {
				b.Fatal(err)
			}
			_, err = fcall(c, bufio.NewReader(c), "acme/route", `"x"`)
			answered = err == nil
			c.Close()
		}
		waits = append(waits, time.Since(began))
	}
	slices.Sort(waits)
	b.ReportMetric(float64(waits[len(waits)/2])/1e6, "ms-median")
	b.ReportMetric(float64(waits[len(waits)-1])/1e6, "ms-most")
}
