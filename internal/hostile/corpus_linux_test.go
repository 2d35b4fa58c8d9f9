package hostile

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

var (
	showTable = flag.Bool("hostile.table", false, "print the table of docs/isolation.md")
	rounds    = flag.Int("hostile.rounds", 1, "how often each attack is made")
)

// corpus is all attacks.
func corpus() []attack {
	return slices.Concat(respAttacks(), httpAttacks(), grpcAttacks(ofAgent), spopAttacks(), portAttacks(), anyAttacks())
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
					at.make(t, a, &others.during, socket, worst)
				})
			}
		}
	}
	if n := a.metric("scriptorium_agent_worker_restarts_total"); n != 0 {
		t.Errorf("the process of the tenant was replaced %v times", n)
	}
	t.Logf("%d attacks, %d calls of others", len(corpus()), others.calls.Load())
	if *showTable {
		printTable(corpus(), worst)
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

func (at attack) make(t *testing.T, on target, during *atomic.Pointer[string], socket string, worst map[string]grown) {
	t.Helper()
	name := t.Name()
	during.Store(&name)
	most := cmp.Or(at.most, usual) << 20
	growth := at.grow(t, on, socket)
	// The garbage collector may be late on a busy machine. An attack that makes a process hold more
	// does so each time.
	for try := 1; growth > most && try < tries; try++ {
		growth = min(growth, at.grow(t, on, socket))
	}
	if growth > worst[at.family].bytes {
		worst[at.family] = grown{growth, at.idea}
	}
	if growth > most {
		t.Errorf("a process grew by %d MiB, want at most %d", growth>>20, most>>20)
	}
}

// tries is how often an attack is made whose growth is above its bound.
const tries = 3

// grow makes the attack, and returns by how much the memory of the process grew.
func (at attack) grow(t *testing.T, on target, socket string) int64 {
	t.Helper()
	where := &arena{T: t, target: on, socket: socket, from: at.from}
	if at.from == nil {
		where.from = []int{bad}
	}
	v := on.process()
	v.free()
	files, goroutines := v.held()
	w := v.watch()
	at.run(where)
	on.served(t)
	growth := w.end()
	where.close()
	v.await(fmt.Sprintf("%d descriptors and %d goroutines again", files, goroutines), func() bool {
		f, g := v.held()
		return f <= files+slack && g <= goroutines+slack
	})
	return growth
}

// spareFiles is how many descriptors an agent has left at least: without one it accepts nothing.
const spareFiles = 32

// served implements target. It fails the test if a new caller is not served, or somebody who asks how the agent is.
func (a *agent) served(t *testing.T) {
	t.Helper()
	for _, socket := range []string{"resp", "http", "grpc", "spop", "port", "iso/resp", "iso/http", "iso/grpc", "iso/spop"} {
		if err := a.echo(socket); err != nil {
			t.Errorf("a new caller over %s got %v", socket, err)
		}
	}
	if n := descriptors(a.pid); n > fileLimit-spareFiles {
		t.Errorf("the agent has %d descriptors of %d", n, fileLimit)
	}
	for network, address := range map[string]string{"unix": a.path("http"), "tcp": a.admin} {
		for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
			if _, err := get(network, address, path); err != nil {
				t.Errorf("%s over %s: %v", path, network, err)
			}
		}
	}
}

// ideas returns the families of a corpus in their order, and how the page lists the ideas of each.
func ideas(corpus []attack) (families []string, of map[string][]string) {
	of = map[string][]string{}
	for _, at := range corpus {
		if of[at.family] == nil {
			families = append(families, at.family)
		}
		of[at.family] = append(of[at.family], strings.ToUpper(at.idea[:1])+at.idea[1:]+".")
	}
	return families, of
}

// printTable prints rows of the table of docs/isolation.md.
func printTable(corpus []attack, worst map[string]grown) {
	families, of := ideas(corpus)
	for _, f := range families {
		fmt.Fprintf(os.Stdout, "| %s | %d | %d MiB (%s) | %s |\n", f, len(of[f]), worst[f].bytes>>20, worst[f].idea, strings.Join(of[f], " "))
	}
}

// TestDocumentedAttacks: docs/isolation.md lists the attacks that there are.
func TestDocumentedAttacks(t *testing.T) {
	page, err := os.ReadFile("../../docs/isolation.md")
	if err != nil {
		t.Fatal(err)
	}
	families, of := ideas(append(corpus(), registryAttacks()...))
	for _, f := range families {
		begins, ends := fmt.Sprintf("| %s | %d | ", f, len(of[f])), fmt.Sprintf(") | %s |", strings.Join(of[f], " "))
		if !slices.ContainsFunc(strings.Split(string(page), "\n"), func(row string) bool { return strings.HasPrefix(row, begins) && strings.HasSuffix(row, ends) }) {
			t.Errorf("docs/isolation.md has no row %s…%s; print it with go test ./internal/hostile -hostile.table", begins, ends)
		}
	}
}
