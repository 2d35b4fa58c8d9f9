package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// fleetResult is what was measured of one fleet. Times are in milliseconds.
type fleetResult struct {
	Agents      int  `json:"agents"`
	Scripts     int  `json:"scripts"`
	Registries  int  `json:"registries"`
	SourceBytes int  `json:"sourceBytes"`
	EventBytes  int  `json:"eventBytes"`
	Changes     int  `json:"changes"`
	Verified    bool `json:"verified"` // by each agent
	JoinAtOnce  int  `json:"joinAtOnce"`

	Active     spread  `json:"activeMillis"`     // from the commit of a change until an agent had it
	Everywhere spread  `json:"everywhereMillis"` // until the last agent had it
	Bare       spread  `json:"bareMillis"`       // from the publish of a bare message until a connection had it
	BareLast   spread  `json:"bareLastMillis"`   // until the last connection had it
	Published  spread  `json:"publishedMillis"`  // from the request to change until its answer
	Join       spread  `json:"joinMillis"`       // from the start of an agent until it had all scripts
	JoinAll    float64 `json:"joinAllMillis"`    // from the start of the first until the last had them

	Revision script.Revision `json:"revision"` // of the last change
	Reached  int64           `json:"reached"`  // by all agents

	Phases    []fleetPhase       `json:"phases"`
	MemoryMiB map[string]float64 `json:"peakMemoryMiB"` // at most, by process
	Seconds   float64            `json:"seconds"`       // that the measurement took
	Error     string             `json:"error,omitempty"`

	active, bare arrivals
	published    []time.Duration
}

// fleetPhase is what the processes took during a part of the measurement.
type fleetPhase struct {
	Name    string                  `json:"name"`
	Seconds float64                 `json:"seconds"`
	Usage   map[string]processUsage `json:"usage"` // by process
}

// processUsage is what a process, or several, took.
type processUsage struct {
	CPU float64 `json:"cpuSeconds"`
	In  float64 `json:"inMiB"`  // read by system calls: sockets and files
	Out float64 `json:"outMiB"` // written so
}

// spread is a distribution.
type spread struct {
	P50     float64 `json:"p50"`
	P99     float64 `json:"p99"`
	Slowest float64 `json:"slowest"`
}

func spreadOf(times []time.Duration) spread {
	return spread{P50: millis(times, 50), P99: millis(times, 99), Slowest: millis(times, 100)}
}

// arrivals are how long things took to each of many, and to the last of them.
type arrivals struct{ each, last []time.Duration }

func (a *arrivals) add(since time.Time, workers []FleetTimes) {
	first := len(a.each)
	for _, w := range workers {
		for _, at := range w.Done {
			a.each = append(a.each, time.Duration(at-since.UnixNano()))
		}
	}
	a.last = append(a.last, slices.Max(a.each[first:]))
}

func (r *fleetResult) joined(workers []FleetTimes) {
	var each []time.Duration
	var begun, done []int64
	for _, w := range workers {
		for i := range w.Done {
			each = append(each, time.Duration(w.Done[i]-w.Begun[i]))
		}
		begun, done = append(begun, w.Begun...), append(done, w.Done...)
	}
	r.Join = spreadOf(each)
	r.JoinAll = float64(slices.Max(done)-slices.Min(begun)) / float64(time.Millisecond)
}

func (r *fleetResult) summarise() {
	r.Active, r.Everywhere = spreadOf(r.active.each), spreadOf(r.active.last)
	r.Bare, r.BareLast = spreadOf(r.bare.each), spreadOf(r.bare.last)
	r.Published = spreadOf(r.published)
}

// driverName and agentsName stand for this process, and for those with agents.
const (
	driverName = "driver"
	agentsName = "agents"
)

// group returns under which name a process is counted.
func group(process string) string {
	if strings.HasPrefix(process, agentsName) {
		return agentsName
	}
	return process
}

// pids of all processes, with the driver.
func (r *fleetRun) pids() map[string]int {
	pids := r.stack.pids()
	pids[driverName] = os.Getpid()
	return pids
}

// phase measures what the processes take while do runs.
func (r *fleetRun) phase(name string, do func() error) error {
	before, err := usages(r.pids())
	if err != nil {
		return err
	}
	began := time.Now()
	failed := do() // the report has what it took until then, also after an error
	p := fleetPhase{Name: name, Seconds: time.Since(began).Seconds(), Usage: map[string]processUsage{}}
	after, err := usages(r.pids())
	if err != nil {
		return errors.Join(failed, err)
	}
	for process, u := range after {
		took := u.since(before[process])
		sum := p.Usage[group(process)]
		sum.CPU += took.CPU.Seconds()
		sum.In += float64(took.In) / (1 << 20)
		sum.Out += float64(took.Out) / (1 << 20)
		p.Usage[group(process)] = sum
	}
	r.result.Phases = append(r.result.Phases, p)
	return errors.Join(failed, r.remember())
}

func usages(pids map[string]int) (map[string]usage, error) {
	all := map[string]usage{}
	for name, pid := range pids {
		u, err := usageOf(pid)
		if err != nil {
			return nil, err
		}
		all[name] = u
	}
	return all, nil
}

// remember notes how much memory the processes took at most.
func (r *fleetRun) remember() error {
	r.result.MemoryMiB = map[string]float64{}
	for name, pid := range r.pids() {
		_, peak, err := memoryOf(pid)
		if err != nil {
			return err
		}
		r.result.MemoryMiB[group(name)] += float64(peak) / (1 << 20)
	}
	return nil
}

func printFleet(out io.Writer, o *fleetOptions, results []*fleetResult) error {
	switch o.output {
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(map[string]any{"cpus": runtime.NumCPU(), "go": runtime.Version(), "fleets": results})
	case "markdown":
		return printTables(out, o, results, markdownTable)
	default:
		return printTables(out, o, results, plainTable)
	}
}

// printTables prints one table about times, and one about what they cost.
func printTables(out io.Writer, o *fleetOptions, results []*fleetResult, table func([][]string) string) error {
	verified := "agents do not verify signatures"
	if o.verify {
		verified = "each agent verifies signatures"
	}
	if o.warm {
		verified += "; all but one in each process start with the scripts on their disks"
	}
	times := [][]string{{
		"agents", "scripts", "active p50", "p99", "slowest", "last agent p50", "p99", "bare NATS p50", "p99", "last connection p50", "p99", "join p50", "last agent joined",
	}}
	costs := [][]string{{
		"agents", "scripts", "process", "join: processor", "in", "out", "idle: processor", "in", "out", "change: processor", "in", "out", "peak memory",
	}}
	event := 0
	for _, r := range results {
		fleet := []string{grouped(r.Agents), grouped(r.Scripts)}
		if r.Error != "" {
			times = append(times, append(fleet, "failed: "+firstLine(r.Error)))
			continue
		}
		event = max(event, r.EventBytes)
		row := slices.Clone(fleet)
		for _, t := range []float64{
			r.Active.P50, r.Active.P99, r.Active.Slowest, r.Everywhere.P50, r.Everywhere.P99, r.Bare.P50, r.Bare.P99, r.BareLast.P50, r.BareLast.P99,
		} {
			row = append(row, fmt.Sprintf("%.1f ms", t))
		}
		times = append(times, append(row, fmt.Sprintf("%.2f s", r.Join.P50/1000), fmt.Sprintf("%.2f s", r.JoinAll/1000)))
		costs = append(costs, r.costs(fleet)...)
	}
	_, err := fmt.Fprintf(out, "%d CPUs, which all processes share; %s; %d registries; %d changes each; sources of %d bytes, events of %d; %s\n\n%s\n%s",
		runtime.NumCPU(), runtime.Version(), o.registries, o.changes, o.sourceBytes, event, verified, table(times), table(costs))
	return err
}

// costs are the rows about the processes of the fleet.
func (r *fleetResult) costs(fleet []string) [][]string {
	var rows [][]string
	for _, process := range r.processes() {
		row := append(slices.Clone(fleet), process)
		for _, phase := range r.Phases {
			u := phase.Usage[process]
			switch phase.Name {
			case "join":
				row = append(row, fmt.Sprintf("%.2f s", u.CPU), fmt.Sprintf("%.1f MiB", u.In), fmt.Sprintf("%.1f MiB", u.Out))
			case "idle":
				row = append(row, fmt.Sprintf("%.1f %%", 100*u.CPU/phase.Seconds), fmt.Sprintf("%.0f KiB/s", 1024*u.In/phase.Seconds), fmt.Sprintf("%.0f KiB/s", 1024*u.Out/phase.Seconds))
			default:
				changes := float64(r.Changes)
				row = append(row, fmt.Sprintf("%.1f ms", 1000*u.CPU/changes), fmt.Sprintf("%.0f KiB", 1024*u.In/changes), fmt.Sprintf("%.0f KiB", 1024*u.Out/changes))
			}
		}
		rows = append(rows, append(row, fmt.Sprintf("%.0f MiB", r.MemoryMiB[process])))
	}
	return rows
}

// processes are the names that processes are counted under: servers first.
func (r *fleetResult) processes() []string {
	var names []string
	for name := range r.MemoryMiB {
		names = append(names, name)
	}
	order := func(name string) int { return slices.Index([]string{agentsName, driverName}, name) }
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a, b)) })
	return names
}

// grouped writes a number with commas between thousands.
func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func markdownTable(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString("|" + strings.Repeat("---:|", len(row)) + "\n")
		}
	}
	return b.String()
}

func plainTable(rows [][]string) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if len(row) > 3 { // a row that failed has one long cell
				widths[i] = max(widths[i], len(cell))
			}
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			fmt.Fprintf(&b, "%*s  ", widths[i], cell)
		}
		b.WriteString("\n")
	}
	return b.String()
}
