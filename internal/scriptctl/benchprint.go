package scriptctl

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/internal/scriptbench"
)

// benchView is what was measured.
type benchView struct {
	Against string          `json:"against,omitempty"` // acme/route@7, or a file
	Rounds  int             `json:"rounds"`
	Cases   []benchCaseView `json:"cases"`
}

type benchCaseView struct {
	Script  string            `json:"script"`
	Name    string            `json:"name"`
	File    string            `json:"file"`
	Line    int               `json:"line"`
	Metrics []benchMetricView `json:"metrics"`
}

// benchMetricView is the median of a metric, with its 95% confidence interval.
type benchMetricView struct {
	Name string `json:"name"`
	benchMedianView
	Against *benchMedianView `json:"against,omitempty"`
	// Percent is the change from Against; absent if that is 0.
	Percent     *float64 `json:"changePercent,omitempty"`
	P           *float64 `json:"p,omitempty"`
	Significant *bool    `json:"significant,omitempty"`
}

type benchMedianView struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// benchMetrics are the metrics: as JSON names them, and how they are printed.
var benchMetrics = []struct {
	metric      scriptbench.Metric
	name, label string
	format      func(float64) string
}{
	{scriptbench.CallsPerSecond, "callsPerSecond", "calls/s", func(v float64) string { return rounded(v, 3) }},
	{scriptbench.P50Seconds, "p50Seconds", "p50", benchTime},
	{scriptbench.P99Seconds, "p99Seconds", "p99", benchTime},
	{scriptbench.Instructions, "instructions", "instructions", whole},
	{scriptbench.AllocatedBytes, "allocatedBytes", "allocated", func(v float64) string { return whole(v) + "B" }},
}

func benchTime(seconds float64) string { return latency(time.Duration(seconds * float64(time.Second))) }

func whole(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }

// rounded formats a number of 1 or more with so many digits that count: 48,213 as 48200.
func rounded(v float64, n int) string {
	unit := math.Pow(10, math.Max(0, math.Floor(math.Log10(math.Max(v, 1)))-float64(n-1)))
	return strconv.FormatFloat(math.Round(v/unit)*unit, 'f', 0, 64)
}

// add adds a case, and prints it for a person.
func (b *bench) add(m *manifest.Manifest, t *manifest.TestCase, res *scriptbench.Result) {
	c := benchCaseView{Script: m.Name.String(), Name: t.Name, File: t.File, Line: t.Line}
	median := func(side int, metric scriptbench.Metric) benchMedianView {
		return benchMedianView(res.Sides[side][metric])
	}
	rows := [][]string{{"", m.File}}
	if len(res.Sides) > 1 {
		rows = [][]string{{"", b.view.Against, m.File, "change"}}
	}
	for _, k := range benchMetrics {
		v := benchMetricView{Name: k.name, benchMedianView: median(0, k.metric)}
		if math.IsNaN(v.Median) || len(res.Sides) > 1 && math.IsNaN(median(1, k.metric).Median) {
			continue
		}
		row := []string{k.label, v.format(k.format)}
		if len(res.Sides) > 1 {
			compared := res.Compared[k.metric]
			v.Against, v.P, v.Significant = new(median(1, k.metric)), &compared.P, &compared.Significant
			if v.Against.Median != 0 {
				v.Percent = new((v.Median/v.Against.Median - 1) * 100)
			}
			row = []string{k.label, v.Against.format(k.format), v.format(k.format), v.change(b.view.Rounds)}
		}
		c.Metrics, rows = append(c.Metrics, v), append(rows, row)
	}
	b.view.Cases = append(b.view.Cases, c)
	if b.app.output == formatTable {
		fmt.Fprintf(b.app.Out, "%s  %s  %s:%d\n", c.Script, plain(c.Name), c.File, c.Line)
		columns(b.app.Out, rows)
		fmt.Fprintln(b.app.Out)
	}
}

// format returns the median, and the wider half of its confidence interval as a percentage.
func (v *benchMedianView) format(format func(float64) string) string {
	half := 0.0
	if v.Median != 0 {
		half = math.Max(v.High/v.Median-1, 1-v.Low/v.Median) * 100
	}
	return fmt.Sprintf("%s ± %.0f%%", format(v.Median), half)
}

// change returns the change from the other version, or "~" if there is no significant one.
func (v *benchMetricView) change(rounds int) string {
	change := "~"
	if *v.Significant {
		change = "from 0"
		if v.Percent != nil {
			change = fmt.Sprintf("%+.1f%%", *v.Percent)
		}
	}
	return fmt.Sprintf("%s (p=%.3f n=%d)", change, *v.P, rounds)
}

// footer says how to read the table.
func (b *bench) footer(w io.Writer) {
	fmt.Fprintf(w, "medians of %d rounds ± their 95%% confidence intervals", b.view.Rounds)
	if b.view.Against != "" {
		fmt.Fprint(w, "; ~ is no significant difference")
	}
	fmt.Fprintln(w)
}
