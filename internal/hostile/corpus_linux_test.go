package hostile

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

var (
	showTable = flag.Bool("hostile.table", false, "print the table of docs/isolation.md")
	rounds    = flag.Int("hostile.rounds", 1, "how often each attack is made")
)

// corpus is all attacks.
func corpus() []attack {
	return slices.Concat(respAttacks(), httpAttacks(), grpcAttacks(), anyAttacks())
}

// slack is for descriptors and goroutines of the agent itself, such as a connection that it
// makes anew.
const slack = 8

// TestSockets makes each attack on an agent. Meanwhile and afterwards others are served, the
// agent's memory keeps within the attack's bound, and afterwards it has as many descriptors and
// goroutines as before.
func TestSockets(t *testing.T) {
	needs.Root(t, "connects as several users")
	a := startAgent(t)
	others := a.bystanders()
	defer others.end()
	worst := map[string]grown{}
	for range *rounds {
		for _, at := range corpus() {
			for _, socket := range at.sockets() {
				t.Run(socket+"/"+at.idea, func(t *testing.T) {
					at.make(t, a, others, socket, worst)
				})
			}
		}
	}
	if n := a.metric("scriptorium_agent_worker_restarts_total"); n != 0 {
		t.Errorf("the process of the tenant was replaced %v times", n)
	}
	t.Logf("%d attacks, %d calls of others", len(corpus()), others.calls.Load())
	if *showTable {
		printTable(worst)
	}
}

func (at attack) sockets() []string {
	if at.own {
		return []string{at.socket, "iso/" + at.socket}
	}
	return []string{at.socket}
}

// grown is by how much the memory of a process grew, and in which attack.
type grown struct {
	bytes int64
	idea  string
}

func (at attack) make(t *testing.T, a *agent, others *bystanders, socket string, worst map[string]grown) {
	t.Helper()
	where := &arena{T: t, agent: a, socket: socket, from: at.from}
	if at.from == nil {
		where.from = []int{bad}
	}
	a.free()
	name := t.Name()
	others.during.Store(&name)
	files, goroutines := a.held()
	w := a.watch()
	at.run(where)
	a.served(t)
	growth := w.end()
	where.close()
	if growth > worst[at.family].bytes {
		worst[at.family] = grown{growth, at.idea}
	}
	most := at.most
	if most == 0 {
		most = usual
	}
	if growth > most<<20 {
		t.Errorf("a process grew by %d MiB, want at most %d", growth>>20, most)
	}
	a.await(fmt.Sprintf("%d descriptors and %d goroutines again", files, goroutines), func() bool {
		f, g := a.held()
		return f <= files+slack && g <= goroutines+slack
	})
}

// held returns how many descriptors and goroutines the agent has, and the descriptors of the
// tenants' processes with it.
func (a *agent) held() (files, goroutines int) {
	for _, pid := range a.processes() {
		files += descriptors(pid)
	}
	return files, int(a.metric("go_goroutines"))
}

// served fails the test if a new caller is not served, or somebody who asks how the agent is.
func (a *agent) served(t *testing.T) {
	t.Helper()
	for _, socket := range []string{"resp", "http", "grpc", "iso/resp", "iso/http", "iso/grpc"} {
		if err := a.echo(socket); err != nil {
			t.Errorf("a new caller over %s got %v", socket, err)
		}
	}
	for network, address := range map[string]string{"unix": a.path("http"), "tcp": a.admin} {
		for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
			if _, err := get(network, address, path); err != nil {
				t.Errorf("%s over %s: %v", path, network, err)
			}
		}
	}
}

// watch watches the memory of the agent, and of its tenants' processes.
type watch struct {
	stop, done chan struct{}
	growth     int64
}

func (a *agent) watch() *watch {
	w := &watch{stop: make(chan struct{}), done: make(chan struct{})}
	base := map[int]int64{}
	for _, pid := range a.processes() {
		base[pid] = resident(pid)
	}
	go func() {
		defer close(w.done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for last := false; !last; {
			select {
			case <-tick.C:
			case <-w.stop:
				last = true
			}
			for pid, before := range base {
				w.growth = max(w.growth, resident(pid)-before)
			}
		}
	}()
	return w
}

func (w *watch) end() int64 {
	close(w.stop)
	<-w.done
	return w.growth
}

// printTable prints the table of docs/isolation.md.
func printTable(worst map[string]grown) {
	var families []string
	ideas := map[string][]string{}
	for _, at := range corpus() {
		if ideas[at.family] == nil {
			families = append(families, at.family)
		}
		ideas[at.family] = append(ideas[at.family], strings.ToUpper(at.idea[:1])+at.idea[1:]+".")
	}
	fmt.Fprintln(os.Stdout, "| family | attacks | most memory | ideas |\n|---|---|---|---|")
	for _, f := range families {
		fmt.Fprintf(os.Stdout, "| %s | %d | %d MiB (%s) | %s |\n", f, len(ideas[f]), worst[f].bytes>>20, worst[f].idea, strings.Join(ideas[f], " "))
	}
}
