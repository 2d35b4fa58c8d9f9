package main

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// row is a line of the table.
type row struct {
	way, until string
	took       func(sample) []time.Duration
}

var rows = map[string][]row{
	wayConfigMap: {
		{"(a) ConfigMap volume, kubelet defaults", "on a node", onNodes},
		{"", "on every node", onEveryNode},
	},
	wayAnnotated: {
		{"(b) the same, and an annotation of each pod touched", "on a node", onNodes},
		{"", "on every node", onEveryNode},
	},
	wayLuaScript: {
		{"(c) LuaScript applied", "the API server's answer", func(s sample) []time.Duration { return []time.Duration{s.answered} }},
		{"", "calls answered with it on the first node", onFirstNode},
		{"", "**calls answered with it on every node**", onEveryNode},
		{"", "the same, from the API server's answer on", afterAnswer},
		{"", "`Converged` seen by a watch", func(s sample) []time.Duration { return []time.Duration{s.converged} }},
		{"", "the same, from calls answered with it on every node on", afterEveryNode},
	},
}

func onNodes(s sample) []time.Duration { return slices.Collect(maps.Values(s.nodes)) }
func onFirstNode(s sample) []time.Duration {
	return []time.Duration{slices.Min(onNodes(s))}
}

func onEveryNode(s sample) []time.Duration {
	return []time.Duration{slices.Max(onNodes(s))}
}

// afterAnswer is what of that is not the API server's.
func afterAnswer(s sample) []time.Duration {
	return []time.Duration{onEveryNode(s)[0] - s.answered}
}

// afterEveryNode is what it takes until that is known.
func afterEveryNode(s sample) []time.Duration {
	return []time.Duration{s.converged - onEveryNode(s)[0]}
}

// table returns the figures as Markdown.
func table(samples []sample) string {
	var b strings.Builder
	b.WriteString("| way | until | n | median | p90 | p99 | max |\n|---|---|---:|---:|---:|---:|---:|\n")
	for _, way := range []string{wayConfigMap, wayAnnotated, wayLuaScript} {
		for _, r := range rows[way] {
			values := valuesOf(samples, way, r.took)
			if len(values) == 0 {
				continue
			}
			fmt.Fprintf(&b, "| %s | %s | %d | %s | %s | %s | %s |\n", r.way, r.until, len(values),
				short(quantile(values, 0.5)), short(quantile(values, 0.9)), short(quantile(values, 0.99)), short(quantile(values, 1)))
		}
	}
	return b.String()
}

// The bar for (c), from apply to calls being answered with it on every node.
const (
	barMedian = 25 * time.Millisecond
	barP99    = 100 * time.Millisecond
)

// verdict says whether the bar is met.
func verdict(samples []sample) string {
	values := valuesOf(samples, wayLuaScript, onEveryNode)
	if len(values) == 0 {
		return ""
	}
	word := func(got, bar time.Duration) string {
		if got <= bar {
			return "met"
		}
		return "**missed**"
	}
	median, p99 := quantile(values, 0.5), quantile(values, 0.99)
	return fmt.Sprintf("The bar for (c) on every node: median at most %s, %s; p99 at most %s, %s.\n",
		short(barMedian), word(median, barMedian), short(barP99), word(p99, barP99))
}

func valuesOf(samples []sample, way string, took func(sample) []time.Duration) []time.Duration {
	var values []time.Duration
	for _, s := range samples {
		if s.way == way {
			values = append(values, took(s)...)
		}
	}
	slices.Sort(values)
	return values
}

// quantile returns the smallest of the sorted values that so many are not above.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func short(d time.Duration) string {
	if d < time.Second {
		return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 1, 64) + " ms"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
}

// writeData writes what was measured as CSV: a line for each thing that came of each change.
func writeData(out io.Writer, samples []sample) error {
	samples = slices.SortedFunc(slices.Values(samples), func(a, b sample) int { return a.started.Compare(b.started) })
	w := csv.NewWriter(out)
	write := func(change int, s sample, what, node string, took time.Duration) {
		_ = w.Write([]string{ // w.Error says
			strconv.Itoa(change), s.way, strconv.FormatFloat(s.started.Sub(samples[0].started).Seconds(), 'f', 3, 64),
			what, node, strconv.FormatFloat(float64(took)/float64(time.Millisecond), 'f', 3, 64),
		})
	}
	_ = w.Write([]string{"change", "way", "started_s", "what", "node", "ms"})
	for i, s := range samples {
		write(i+1, s, "answered", "", s.answered)
		for _, node := range slices.SortedFunc(maps.Keys(s.nodes), func(a, b string) int { return cmp.Compare(s.nodes[a], s.nodes[b]) }) {
			write(i+1, s, "seen", node, s.nodes[node])
		}
		if s.way == wayLuaScript {
			write(i+1, s, "converged", "", s.converged)
		}
	}
	w.Flush()
	return w.Error()
}
