package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/loadtest/faults/history"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/plan"
)

// report is what came of a run.
type report struct {
	Software    string   `json:"software"`
	Seed        uint64   `json:"seed"`
	Agents      int      `json:"agents"`
	Registries  int      `json:"registries"`
	NoFullDisks string   `json:"noFullDisks,omitempty"` // why disks were not filled
	Seconds     float64  `json:"seconds"`
	Totals      totals   `json:"totals"`
	Schedules   []result `json:"schedules"`
}

// totals are over all schedules.
type totals struct {
	Schedules  int            `json:"schedules"`
	Violations int            `json:"violations"`
	Actions    map[string]int `json:"actions"`
	Forged     map[string]int `json:"forged"` // messages
	Acked      int            `json:"acked"`
	Refused    int            `json:"refused"`
	Unclear    int            `json:"unclear"`
	Calls      int            `json:"calls"`
	Sights     int            `json:"sights"`
	Claims     int            `json:"claims"`
	// Converged is the time from when the faults had stopped and all processes
	// served until each agent ran what the registry says; Told, until each registry
	// said so.
	Converged spread `json:"converged"`
	Told      spread `json:"told"`
}

// spread is a distribution, in seconds.
type spread struct {
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

// result is what came of one schedule.
type result struct {
	Seed       uint64              `json:"seed"`
	Actions    map[string]int      `json:"actions"`
	Acked      int                 `json:"acked"`
	Refused    int                 `json:"refused"`
	Unclear    int                 `json:"unclear"`
	Calls      int                 `json:"calls"`
	Sights     int                 `json:"sights"` // answers that were checked
	Claims     int                 `json:"claims"` // of registries, on what has converged and is active
	Converged  float64             `json:"converged"`
	Told       float64             `json:"told"`
	Seconds    float64             `json:"seconds"`
	Logs       string              `json:"logs,omitempty"`
	Violations []history.Violation `json:"violations,omitempty"`

	kinds string
}

func newReport(cfg config, software string) *report {
	return &report{
		Software: software, Seed: cfg.seed, Agents: cfg.agents, Registries: cfg.registries,
		Totals: totals{Actions: map[string]int{}, Forged: map[string]int{}},
	}
}

func newResult(p plan.Plan, h *history.History, calls int, took time.Duration) result {
	r := result{
		Seed: p.Seed, Actions: map[string]int{}, kinds: p.Kinds(), Calls: calls,
		Sights: len(h.Sights), Claims: len(h.Claims) + len(h.Reports), Seconds: took.Seconds(),
	}
	for _, a := range p.Actions {
		r.Actions[string(a.Kind)]++
	}
	for _, w := range h.Writes {
		switch w.Outcome {
		case history.Acked:
			r.Acked++
		case history.Refused:
			r.Refused++
		case history.Unclear:
			r.Unclear++
		}
	}
	if h.Converged > 0 {
		r.Converged = (h.Converged - h.Mended).Seconds()
	}
	if h.Told > 0 {
		r.Told = (h.Told - h.Mended).Seconds()
	}
	return r
}

func (r *report) add(s result) {
	r.Schedules = append(r.Schedules, s)
	t := &r.Totals
	t.Schedules++
	t.Violations += len(s.Violations)
	for kind, n := range s.Actions {
		t.Actions[kind] += n
	}
	t.Acked += s.Acked
	t.Refused += s.Refused
	t.Unclear += s.Unclear
	t.Calls += s.Calls
	t.Sights += s.Sights
	t.Claims += s.Claims
	t.Converged = spreadOf(r.Schedules, func(s result) float64 { return s.Converged })
	t.Told = spreadOf(r.Schedules, func(s result) float64 { return s.Told })
}

func spreadOf(results []result, of func(result) float64) spread {
	var all []float64
	for _, r := range results {
		if v := of(r); v > 0 {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return spread{}
	}
	slices.Sort(all)
	at := func(q float64) float64 { return all[min(len(all)-1, int(q*float64(len(all))))] }
	return spread{Median: at(0.5), P90: at(0.9), P99: at(0.99), Max: all[len(all)-1]}
}

func (s spread) String() string {
	return fmt.Sprintf("median %.2f s, p90 %.2f s, p99 %.2f s, slowest %.2f s", s.Median, s.P90, s.P99, s.Max)
}

// print tells of one schedule.
func (r result) print(w io.Writer) {
	fmt.Fprintf(w, "seed %d: %s\n", r.Seed, r.kinds)
	fmt.Fprintf(w, "  writes: %d acknowledged, %d refused, %d unclear; %d calls; converged in %.2f s, told in %.2f s; took %.1f s; violations: %d\n",
		r.Acked, r.Refused, r.Unclear, r.Calls, r.Converged, r.Told, r.Seconds, len(r.Violations))
	for _, v := range r.Violations {
		fmt.Fprintf(w, "\nVIOLATION at seed %d: %s\n  %s\n", r.Seed, v.Promise, v.What)
		for _, line := range v.Timeline {
			fmt.Fprintln(w, "    "+line)
		}
	}
	if r.Logs != "" {
		fmt.Fprintf(w, "\n  what the processes said is in %s\n  again: go run ./loadtest/faults --seed %d --schedules 1\n\n", r.Logs, r.Seed)
	}
}

// print tells of the whole run.
func (r *report) print(w io.Writer) {
	t := r.Totals
	fmt.Fprintf(w, "\n%d schedules from seed %d in %.0f s: %d registries, %d agents, %s\n", t.Schedules, r.Seed, r.Seconds, r.Registries, r.Agents, r.Software)
	fmt.Fprintf(w, "  faults:    %s\n", counts(t.Actions))
	fmt.Fprintf(w, "  forged:    %s\n", counts(t.Forged))
	fmt.Fprintf(w, "  writes:    %d acknowledged, %d refused, %d unclear\n", t.Acked, t.Refused, t.Unclear)
	fmt.Fprintf(w, "  calls:     %d; %d answers of agents checked, and %d claims of registries on agents\n", t.Calls, t.Sights, t.Claims)
	fmt.Fprintf(w, "  converged: %s after the faults stopped\n", t.Converged)
	fmt.Fprintf(w, "  told:      %s, by every registry\n", t.Told)
	if r.NoFullDisks != "" {
		fmt.Fprintf(w, "  no disk was filled: %s\n", r.NoFullDisks)
	}
	fmt.Fprintf(w, "violations: %d\n", t.Violations)
}

func counts(of map[string]int) string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("%d %s", of[kind], kind))
	}
	return strings.Join(parts, ", ")
}

func (r *report) forged(messages map[string]int) {
	for kind, n := range messages {
		r.Totals.Forged[kind] += n
	}
}

func (r *report) printJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
