package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/internal/memtest"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

func runFleet(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return runFleetUntil(t, "", args...)
}

// interrupting cancels once the text is written.
type interrupting struct {
	io.Writer
	text   string
	cancel func()
}

func (i interrupting) Write(p []byte) (int, error) {
	if i.text != "" && strings.Contains(string(p), i.text) {
		i.cancel()
	}
	return i.Writer.Write(p)
}

// runFleetUntil interrupts the command, as Ctrl-C does, when its progress says the text.
func runFleetUntil(t *testing.T, interrupt string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	t.Setenv("TMPDIR", t.TempDir())
	cmd := newFleetCommand()
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(interrupting{t.Output(), interrupt, cancel})
	err := cmd.ExecuteContext(ctx)
	left, readErr := os.ReadDir(os.Getenv("TMPDIR"))
	if readErr != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, readErr)
	}
	if children := childrenOf(t, os.Getpid()); len(children) > 0 {
		t.Errorf("processes are left behind: %v", children)
	}
	return out.String(), err
}

// childrenOf returns the processes that the process started and that run.
func childrenOf(t *testing.T, pid int) (children []string) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Fatalf("there are no processes: %v", err)
	}
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == fmt.Sprint(pid) {
			children = append(children, path)
		}
	}
	return children
}

func fleetsOf(t *testing.T, out string) []fleetResult {
	t.Helper()
	var report struct{ Fleets []fleetResult }
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return report.Fleets
}

// TestFleet runs a small fleet, over real processes.
func TestFleet(t *testing.T) {
	out, err := runFleet(t, "--agents", "20", "--scripts", "20", "--changes", "4", "--pause", "0s", "--idle", "100ms", "--agents-per-process", "12", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	fleets := fleetsOf(t, out)
	if len(fleets) != 1 {
		t.Fatalf("%d fleets", len(fleets))
	}
	f := fleets[0]
	if f.Revision == 0 || f.Reached < int64(f.Revision) || f.Error != "" {
		t.Errorf("all agents are at %d, the last change at %d: %s", f.Reached, f.Revision, f.Error)
	}
	for name, s := range map[string]spread{
		"active": f.Active, "everywhere": f.Everywhere, "bare": f.Bare, "bareLast": f.BareLast, "published": f.Published, "join": f.Join,
	} {
		if s.P50 <= 0 || s.P99 < s.P50 || s.Slowest < s.P99 {
			t.Errorf("impossible times: %s %+v", name, s)
		}
	}
	if f.Everywhere.P50 < f.Active.P50 || f.Everywhere.P99 < f.Active.P99 || f.BareLast.P99 < f.Bare.P99 || f.Everywhere.Slowest != f.Active.Slowest || f.JoinAll < f.Join.P50 || f.EventBytes < f.SourceBytes {
		t.Errorf("figures contradict each other: %+v", f)
	}
	var names []string
	for _, p := range f.Phases {
		names = append(names, p.Name)
		for _, process := range []string{"etcd", "nats", "registry-0", "registry-1", agentsName, driverName} {
			if _, ok := p.Usage[process]; !ok || p.Seconds <= 0 || f.MemoryMiB[process] <= 0 {
				t.Errorf("phase %s says nothing of %s: %+v", p.Name, process, p)
			}
		}
		if p.Name == "join" && (p.Usage["registry-0"].Out <= 0 || p.Usage[agentsName].In <= 0) {
			t.Errorf("agents joined without a byte: %+v", p)
		}
	}
	if got := strings.Join(names, " "); got != "join idle changes" {
		t.Errorf("the phases are %s", got)
	}
}

// TestFleetThatFails: what was measured is printed, and the reason.
// TestFleetFromDisk: agents that start with the scripts on their disks take no snapshot.
func TestFleetFromDisk(t *testing.T) {
	out, err := runFleet(t, "--agents", "20", "--scripts", "50", "--warm", "--changes", "2", "--pause", "0s", "--idle", "100ms", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	f := fleetsOf(t, out)[0]
	if f.Reached < int64(f.Revision) || f.Active.P50 <= 0 {
		t.Errorf("all agents are at %d, the last change at %d: %+v", f.Reached, f.Revision, f.Active)
	}
	join := f.Phases[0].Usage
	if sent, once := join["registry-0"].Out+join["registry-1"].Out, float64(50*f.SourceBytes); float64(sent) > 10*once {
		t.Errorf("the registries sent %v bytes to 20 agents, and one snapshot has about %v", sent, once)
	}
}

func TestFleetThatFails(t *testing.T) {
	out, err := runFleet(t, "--agents", "2", "--scripts", "2", "--within", "1ms", "-o", "json")
	if err == nil || !strings.Contains(err.Error(), "--within") {
		t.Errorf("it ended with %v", err)
	}
	if fleets := fleetsOf(t, out); len(fleets) != 1 || !strings.Contains(fleets[0].Error, "--within") {
		t.Errorf("it printed %s", out)
	}
}

// TestFleetThatIsInterrupted: it ends all processes, and says what it has.
func TestFleetThatIsInterrupted(t *testing.T) {
	out, err := runFleetUntil(t, " changes", "--agents", "5,6", "--scripts", "2", "--changes", "20", "--idle", "10ms", "-o", "json")
	if err == nil {
		t.Error("it ended well")
	}
	if fleets := fleetsOf(t, out); len(fleets) != 1 || fleets[0].Error == "" || fleets[0].Join.P50 <= 0 {
		t.Errorf("it printed %s", out)
	}
}

func TestFleetRefusesBadFlags(t *testing.T) {
	for _, args := range [][]string{
		{"--agents", "0"},
		{"--agents", ""},
		{"--agents", "10000000"},
		{"--scripts", "-1"},
		{"--registries", "0"},
		{"--changes", "0"},
		{"--pause", "-1s"},
		{"--idle", "-1s"},
		{"--join-at-once", "-1"},
		{"--within", "0s"},
		{"--source-bytes", "1"},
		{"--source-bytes", "1000000"},
		{"--agents-per-process", "0"},
		{"-o", "xml"},
		{"--agents", "1,2", "--cpuprofile", "x"},
		{"argument"},
	} {
		if out, err := runFleet(t, args...); err == nil {
			t.Errorf("%q was accepted:\n%s", args, out)
		}
	}
}

func TestFleetTables(t *testing.T) {
	usage := map[string]processUsage{"nats": {CPU: 1}, agentsName: {}, "etcd": {}}
	good := &fleetResult{
		Agents: 10000, Scripts: 100, Changes: 10, Active: spread{P50: 1.25, P99: 2, Slowest: 3}, JoinAll: 1500,
		Phases:    []fleetPhase{{"join", 2, usage}, {"idle", 2, usage}, {"changes", 2, usage}},
		MemoryMiB: map[string]float64{"nats": 12, agentsName: 1, "etcd": 3},
	}
	bad := &fleetResult{Agents: 1, Scripts: 1, Error: "no memory\nand more"}
	for output, want := range map[string][]string{
		"markdown": {
			"| 10,000 | 100 | 1.2 ms | 2.0 ms | 3.0 ms |", "| 1.50 s |", "| 1 | 1 | failed: no memory |",
			"| 10,000 | 100 | nats | 1.00 s | 0.0 MiB | 0.0 MiB | 50.0 % | 0 KiB/s | 0 KiB/s | 100.0 ms |",
		},
		"table": {"10,000      100", "failed: no memory"},
	} {
		var out bytes.Buffer
		if err := printFleet(&out, &fleetOptions{output: output}, []*fleetResult{good, bad}); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(out.String(), w) {
				t.Errorf("%s does not say %q:\n%s", output, w, out.String())
			}
		}
		if etcd, agents := strings.Index(out.String(), "etcd"), strings.LastIndex(out.String(), agentsName); etcd > agents {
			t.Errorf("servers come after agents:\n%s", out.String())
		}
	}
}

// The combinations that do not fit into memory all at once join bit by bit.
func TestFleetsJoinInParts(t *testing.T) {
	for _, tt := range []struct{ flag, agents, scripts, want int }{
		{0, 1000, 100, 1000}, {0, 10_000, 10_000, 50}, {0, 10, 10_000_000, 1}, {300, 1000, 10, 300}, {300, 100, 10, 100},
	} {
		o := fleetOptions{joinAtOnce: tt.flag}
		if got := o.atOnce(tt.agents, tt.scripts); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}

func TestSightings(t *testing.T) {
	s := newSightings(2)
	now := time.Unix(0, 5)
	s.see(7, 0, now)
	s.see(7, 0, now.Add(time.Second)) // the first time counts
	if s.seen(7) != 1 || s.seen(8) != 0 {
		t.Errorf("%d saw it", s.seen(7))
	}
	short, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.await(short, 7, nil); err == nil || !strings.Contains(err.Error(), "1 of 2") {
		t.Errorf("half of them is enough: %v", err)
	}
	s.see(7, 1, now.Add(1))
	if at, err := s.await(t.Context(), 7, nil); err != nil || fmt.Sprint(at) != "[5 6]" {
		t.Errorf("%v, %v", at, err)
	}
	s.expect(7)
	s.see(7, 0, now)
	if s.seen(7) != 0 {
		t.Error("what is of no interest is kept")
	}
}

func diskItem(number int, revision script.Revision, content string) follow.Item {
	r := &script.Release{
		Name: script.Name{Tenant: "acme", Script: fmt.Sprint("s", number)}, Revision: revision, Enabled: true,
		Active: script.Version{Number: 1, Digest: script.DigestOf([]byte(content)), Size: len(content), Entrypoint: "handle"},
	}
	return follow.Item{Key: script.Object{Release: r}.Key(), Object: script.Object{Release: r}}
}

func newTestDisk(shared *fleetDisk) (*agentDisk, *[]script.Revision) {
	d := newAgentDisk(shared)
	var went []script.Revision
	d.activated = func(r script.Revision, _ time.Time) { went = append(went, r) }
	d.saved = func(time.Time) {}
	return d, &went
}

// TestAgentsShareTheirDiskAndNotTheirState: what one agent has, another may not have yet.
func TestAgentsShareTheirDiskAndNotTheirState(t *testing.T) {
	const source = "function handle() end"
	shared := newFleetDisk()
	a, went := newTestDisk(shared)
	b, _ := newTestDisk(shared)
	first, second := diskItem(1, 5, source), diskItem(1, 6, source)
	digest := first.Object.Release.Active.Digest
	if a.HasSource(digest) {
		t.Error("a source is there from the start")
	}
	if err := a.Prepare(t.Context(), *first.Object.Release, map[script.Digest][]byte{digest: []byte(source)}, false); err != nil {
		t.Fatal(err)
	}
	_ = a.PutSources(map[script.Digest][]byte{digest: []byte(source)})
	if !a.HasSource(digest) || b.HasSource(digest) {
		t.Error("a source that one agent has stored is that of all, or of none")
	}
	_ = a.Commit([]follow.Item{first}, nil)
	if a.Revision(first.Key) != 5 || b.Revision(first.Key) != 0 || !a.HasSource(digest) || b.HasSource(digest) || len(*went) != 1 {
		t.Errorf("at %d and %d", a.Revision(first.Key), b.Revision(first.Key))
	}
	_ = b.Commit([]follow.Item{second}, nil)
	if a.Revision(first.Key) != 5 || b.Revision(first.Key) != 6 || a.Checksum(script.Releases, 0, nil) == b.Checksum(script.Releases, 0, nil) {
		t.Errorf("at %d and %d", a.Revision(first.Key), b.Revision(first.Key))
	}
	_ = a.Commit([]follow.Item{second}, nil)
	want := wire.FingerprintObject(second.Object)
	for _, d := range []*agentDisk{a, b} {
		if got, sound := d.Check(second.Key); got != want || !sound || d.Checksum(script.Releases, 0, nil) != want {
			t.Errorf("%v, want %v", got, want)
		}
		if d.Checksum(script.Releases, 0, []string{second.Key}) != (wire.Sum{}) {
			t.Error("what is left out counts")
		}
	}
	_ = a.Commit(nil, []string{second.Key})
	for range a.Live() {
		t.Error("something is live after its removal")
	}
	if a.Checksum(script.Releases, 0, nil) != (wire.Sum{}) || b.Revision(second.Key) != 6 {
		t.Error("a removal is not one, or is that of all")
	}
	bad := diskItem(2, 7, "function (")
	if err := b.Prepare(t.Context(), *bad.Object.Release, map[script.Digest][]byte{bad.Object.Release.Active.Digest: []byte("function (")}, false); err == nil {
		t.Error("nonsense compiles")
	}
}

// TestAnAgentCostsFewBytesAScript: else ten thousand agents do not fit into a machine.
func TestAnAgentCostsFewBytesAScript(t *testing.T) {
	const scripts, agents, most = 10_000, 20, 16
	shared := newFleetDisk()
	var items []follow.Item
	for i := range scripts {
		items = append(items, diskItem(i, script.Revision(i+1), "function handle() end"))
	}
	first, _ := newTestDisk(shared)
	first.activated = func(script.Revision, time.Time) {}
	_ = first.Commit(items, nil)
	before := memtest.Heap()
	var disks []*agentDisk
	for range agents {
		d := newAgentDisk(shared)
		d.activated = func(script.Revision, time.Time) {}
		_ = d.Commit(items, nil)
		disks = append(disks, d)
	}
	each := float64(memtest.Heap()-before) / agents / scripts
	t.Logf("%.1f bytes a script", each)
	if each > most {
		t.Errorf("%.1f bytes a script for each agent, at most %d", each, most)
	}
	runtime.KeepAlive(disks)
	runtime.KeepAlive(items)
}
