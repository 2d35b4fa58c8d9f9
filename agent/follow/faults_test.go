package follow_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/proto/seal"
)

// TestFaults runs agents through a minute of faults, and restarts, and checks
// the promises: a node's State and Report check what must always hold, the end
// that every agent converges. SCRIPTORIUM_SEED repeats one run.
func TestFaults(t *testing.T) {
	runs := 4 // one of them signed
	if testing.Short() {
		runs = 2
	}
	first := rand.Uint64()
	if s := os.Getenv("SCRIPTORIUM_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, runs = seed, 1
	}
	for i := range runs {
		seed := first + uint64(i)
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { faultyMinute(t, seed) })
		})
	}
}

func faultyMinute(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, seed)
	w.trusted = seal.NewKeyring(publicOf(newKey(1)), publicOf(newKey(2)))
	signed := seed%4 == 0 // which takes most of the time
	if !signed {
		w.unsigned()
	}
	ctx, cancel := context.WithCancel(t.Context())
	go w.beacons(ctx)
	nodes := make([]*node, 3)
	stops := make([]func(), len(nodes))
	for i := range nodes {
		nodes[i] = newNode(w, fmt.Sprint("n", i))
		nodes[i].tenants = selector(t, [][]string{nil, {"acme"}, {"sh*", "nobody"}}[i]...)
		_, stops[i] = nodes[i].run(ctx, seed+uint64(i)+1)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		switch random.IntN(20) {
		case 0:
			w.set(randomFaults(random, signed))
		case 1:
			w.set(faults{})
		case 2:
			i := random.IntN(len(nodes))
			stops[i]()
			_, stops[i] = nodes[i].run(ctx, random.Uint64())
		case 3: // another replica takes the lead, which may sign by another key
			w.mu.Lock()
			w.term, w.sequence = w.term+1, 0
			if signed {
				w.sealer = seal.NewSealer(newKey(1 + byte(random.IntN(2))))
			}
			w.mu.Unlock()
		default:
			changes := map[string]string{}
			for range 1 + random.IntN(3) {
				src := fmt.Sprint("source ", random.IntN(1000))
				switch random.IntN(8) {
				case 0:
					src = fmt.Sprint("bad ", random.IntN(1000))
				case 1:
					src = ""
				}
				tenant := []string{"acme", "shop"}[random.IntN(2)]
				name := fmt.Sprint(tenant, "/s", random.IntN(12))
				switch random.IntN(4) {
				case 0:
					name = fmt.Sprint("values/", tenant, "/k/", random.IntN(8))
				case 1:
					name = "tenants/" + tenant
				}
				changes[name] = src
			}
			w.commit(changes)
		}
		pass(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
	}
	w.set(faults{})
	pass(500*time.Millisecond + 2*time.Second + 300*time.Millisecond) // what is delayed, two beacons, jitter
	for _, n := range nodes {
		n.expect(n.name + " at the end")
		if got := n.metric(drifts, ""); got != 0 {
			t.Errorf("%s drifted %d times", n.name, got)
		}
	}
	for _, stop := range stops {
		stop()
	}
	cancel()
	synctest.Wait()
}

func randomFaults(random *rand.Rand, signed bool) faults {
	chance := func(most float64) float64 {
		if random.IntN(2) == 0 {
			return 0
		}
		return most * random.Float64()
	}
	f := faults{
		lose: chance(0.5), double: chance(0.5), foreign: chance(0.2), garble: chance(0.2),
		replay: chance(0.3),
		cut:    chance(0.5), slow: chance(0.5), hide: chance(0.5), disk: chance(0.5), floor: chance(0.5),
		silent: random.IntN(4) == 0, down: random.IntN(4) == 0,
	}
	if signed {
		f.forge, f.alter = chance(0.3), chance(0.3)
	}
	if random.IntN(2) == 0 {
		f.delay = time.Duration(1 + random.Int64N(int64(500*time.Millisecond)))
	}
	return f
}
