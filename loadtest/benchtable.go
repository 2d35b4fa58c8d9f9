package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// newBenchTableCommand prints what `go test -bench` said as a table in Markdown.
func newBenchTableCommand() *cobra.Command {
	var yardstick string
	cmd := &cobra.Command{
		Use:   "benchtable",
		Short: "Read what `go test -bench -benchmem` prints, and print it as a table in Markdown",
		Long: `Read what "go test -bench -benchmem" prints, and print it as a table in Markdown:

  go test -run '^$' -bench . -benchmem -count 10 ./engine/lua | go run ./loadtest benchtable

Of each benchmark, the table has the median and the least of its times, and how many
times that of the yardstick the median is.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			runs, err := readBenchmarks(cmd.InOrStdin())
			if err != nil {
				return err
			}
			return writeBenchmarks(cmd.OutOrStdout(), runs, yardstick)
		},
	}
	cmd.Flags().StringVar(&yardstick, "yardstick", "BareGopherLua", "the benchmark that the others are compared with")
	return cmd
}

// benchmark are the runs of one benchmark.
type benchmark struct {
	nanos         []float64
	bytes, allocs float64
}

// readBenchmarks returns the benchmarks by name.
func readBenchmarks(in io.Reader) (map[string]*benchmark, error) {
	runs := map[string]*benchmark{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		const least = 4 // a name, a number of calls, a value and its unit
		if len(fields) < least || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(fields[0], "Benchmark")
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			name = name[:i]
		}
		b := runs[name]
		if b == nil {
			b = &benchmark{}
			runs[name] = b
		}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %q is not a number", name, fields[i])
			}
			switch fields[i+1] {
			case "ns/op":
				b.nanos = append(b.nanos, value)
			case "B/op":
				b.bytes = value
			case "allocs/op":
				b.allocs = value
			}
		}
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("there are no benchmarks in what was read: pipe the output of go test -bench into this")
	}
	return runs, lines.Err()
}

func writeBenchmarks(out io.Writer, runs map[string]*benchmark, yardstick string) error {
	bare := runs[yardstick]
	fmt.Fprintf(out, "| benchmark | median | least | × %s | memory | allocations |\n|---|---:|---:|---:|---:|---:|\n", yardstick)
	for _, name := range slices.Sorted(maps.Keys(runs)) {
		b := runs[name]
		if len(b.nanos) == 0 {
			continue
		}
		middle, ratio := median(b.nanos), "-"
		if bare != nil {
			ratio = fmt.Sprintf("%.1f", middle/median(bare.nanos))
		}
		if _, err := fmt.Fprintf(out, "| %s | %s | %s | %s | %.0f B | %.0f |\n",
			name, nanoText(middle), nanoText(slices.Min(b.nanos)), ratio, b.bytes, b.allocs); err != nil {
			return err
		}
	}
	return nil
}

// nanoText is a number of nanoseconds with three digits.
func nanoText(n float64) string {
	const micro, milli = 1e3, 1e6
	switch {
	case n >= milli:
		return fmt.Sprintf("%.3g ms", n/milli)
	case n >= micro:
		return fmt.Sprintf("%.3g µs", n/micro)
	}
	return fmt.Sprintf("%.3g ns", n)
}
