package main

import (
	"fmt"
	"io"
	"runtime"
	"time"
)

// writeCalls prints a table of each task, in Markdown.
func writeCalls(out io.Writer, o options, contestants []*contestant) error {
	fmt.Fprintf(out, "%d CPUs, %s; medians of %d rounds of %v\n", runtime.NumCPU(), runtime.Version(), o.rounds, o.duration)
	for _, t := range []string{route, transform} {
		fmt.Fprintf(out, "\n%s, an argument of %d bytes\n\n", t, len(task(t+".json")))
		fmt.Fprintln(out, "| | processor time of a call | p50 | p99 | instructions | compile | cold start | memory of the program | source |")
		fmt.Fprintln(out, "|---|---:|---:|---:|---:|---:|---:|---:|---:|")
		for _, c := range contestants {
			if c.task != t {
				continue
			}
			a := c.about
			if _, err := fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", c.name,
				timeText(c.middle(func(f figures) time.Duration { return f.cpu })), timeText(c.middle(func(f figures) time.Duration { return f.p50 })),
				timeText(c.middle(func(f figures) time.Duration { return f.p99 })), countText(a.instructions),
				timeText(a.compile), timeText(a.start), sizeText(a.memory), sizeText(a.source)); err != nil {
				return err
			}
		}
	}
	return nil
}

func timeText(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < time.Millisecond:
		return fmt.Sprintf("%.1f µs", float64(d)/float64(time.Microsecond))
	}
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

func countText(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func sizeText(bytes int) string {
	const kilo = 1000
	switch {
	case bytes == 0:
		return ""
	case bytes < kilo*kilo:
		return fmt.Sprintf("%.1f kB", float64(bytes)/kilo)
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/kilo/kilo)
}
