package picture

import (
	"context"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/scriptorium-dev/scriptorium/deploy/observability/dashboards"
)

// line is one of a panel: a value for each point, NaN where there is none.
type line struct {
	name   string
	values []float64
}

// last is the last value that there is; NaN if there is none.
func (l line) last() float64 {
	for _, v := range slices.Backward(l.values) {
		if !math.IsNaN(v) {
			return v
		}
	}
	return math.NaN()
}

// query returns the lines of all queries of the panel, in the order of their names.
func query(ctx context.Context, d dashboards.Dashboard, p dashboards.Panel, cfg Config) (all []line, err error) {
	step := max(time.Second, cfg.To.Sub(cfg.From)/points)
	for _, q := range p.Queries {
		found, _, _, err := cfg.Prometheus.QueryRange(ctx, q.For(d, cfg.Rate), v1.Range{Start: cfg.From, End: cfg.To, Step: step})
		if err != nil {
			return nil, err
		}
		matrix, ok := found.(model.Matrix)
		if !ok {
			return nil, fmt.Errorf("the query %q answers a %s", q.Expr, found.Type())
		}
		var some []line
		for _, series := range matrix {
			l := line{name: legend(q.Legend, series.Metric), values: slices.Repeat([]float64{math.NaN()}, int(cfg.To.Sub(cfg.From)/step)+1)}
			for _, sample := range series.Values {
				if i := int(sample.Timestamp.Time().Sub(cfg.From).Round(time.Millisecond) / step); i >= 0 && i < len(l.values) && !math.IsInf(float64(sample.Value), 0) {
					l.values[i] = float64(sample.Value)
				}
			}
			if !math.IsNaN(l.last()) {
				some = append(some, l)
			}
		}
		slices.SortFunc(some, func(a, b line) int { return strings.Compare(a.name, b.name) })
		all = append(all, some...)
	}
	return all, nil
}

var labelOf = regexp.MustCompile(`{{\s*(\w+)\s*}}`)

// legend puts the labels of a series into its name.
func legend(format string, labels model.Metric) string {
	return labelOf.ReplaceAllStringFunc(format, func(name string) string {
		return string(labels[model.LabelName(labelOf.FindStringSubmatch(name)[1])])
	})
}

// row is one of a table, by column.
type row map[string]string

// rows are what the queries of a table find now, one for each set of labels.
func rows(ctx context.Context, d dashboards.Dashboard, p dashboards.Panel, cfg Config) ([]row, error) {
	byLabels := map[string]row{}
	for _, q := range p.Queries {
		found, _, _, err := cfg.Prometheus.Query(ctx, q.For(d, cfg.Rate), cfg.To)
		if err != nil {
			return nil, err
		}
		vector, ok := found.(model.Vector)
		if !ok {
			return nil, fmt.Errorf("the query %q answers a %s", q.Expr, found.Type())
		}
		for _, sample := range vector {
			key := sample.Metric.String()
			if byLabels[key] == nil {
				byLabels[key] = row{}
				for name, value := range sample.Metric {
					byLabels[key][string(name)] = string(value)
				}
			}
			byLabels[key][q.Legend] = format(float64(sample.Value), p.Unit)
		}
	}
	var all []row
	for _, key := range slices.Sorted(maps.Keys(byLabels)) {
		all = append(all, byLabels[key])
	}
	return all, nil
}
