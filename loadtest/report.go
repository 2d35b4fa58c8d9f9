package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"
)

// row is a line of the report.
type row struct {
	Protocol    string  `json:"protocol"`
	Connections int     `json:"connections"`
	Pipeline    int     `json:"pipeline"`
	Rate        float64 `json:"callsPerSecond"` // median of the rounds
	P50         float64 `json:"p50Micros"`      // of a whole pipeline
	P99         float64 `json:"p99Micros"`
	Failed      uint64  `json:"failed"` // of all calls, mostly those that met their time limit
	// Ratio to Redis, the median of the rounds' ratios; absent without Redis.
	Ratio *float64 `json:"ratioToRedis,omitempty"`
}

// environment is what the figures depend on.
type environment struct {
	CPUs  int    `json:"cpus"`
	Go    string `json:"go"`
	OS    string `json:"os"`
	Redis string `json:"redis,omitempty"` // "" when there is none
}

func (b *bench) report(out io.Writer) error {
	env := environment{CPUs: runtime.NumCPU(), Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH}
	if b.redis != nil {
		env.Redis = b.redis.version
	}
	rows := make([]row, len(b.results))
	for i, r := range b.results {
		rows[i] = b.rowOf(r)
	}
	if b.opts.output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(struct {
			Environment environment `json:"environment"`
			Rows        []row       `json:"rows"`
		}{env, rows})
	}
	return writeTable(out, env, rows, b.opts)
}

func writeTable(out io.Writer, env environment, rows []row, o callsOptions) error {
	yardstick := "Redis " + env.Redis
	if env.Redis == "" {
		yardstick = "no Redis, so no ratios"
	}
	fmt.Fprintf(out, "calls of %s over Unix sockets, driver included; %d CPUs, %s, %s; %s; median of %d rounds of %v\n\n",
		routeRef, env.CPUs, env.Go, env.OS, yardstick, o.rounds, o.duration)
	fmt.Fprintf(out, "%11s %8s  %-11s %9s %9s %9s %7s %6s\n", "connections", "pipeline", "protocol", "calls/s", "p50 µs", "p99 µs", "failed", "ratio")
	for i, r := range rows {
		if i > 0 && (rows[i-1].Connections != r.Connections || rows[i-1].Pipeline != r.Pipeline) {
			fmt.Fprintln(out)
		}
		ratio := "-"
		if r.Ratio != nil {
			ratio = fmt.Sprintf("%.2f", *r.Ratio)
		}
		_, err := fmt.Fprintf(out, "%11d %8d  %-11s %9.0f %9.0f %9.0f %7d %6s\n",
			r.Connections, r.Pipeline, r.Protocol, r.Rate, r.P50, r.P99, r.Failed, ratio)
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) rowOf(r *result) row {
	var rates, ratios []float64
	var latency histogram
	var failed uint64
	yardstick := b.yardstick(r.load)
	for i, m := range r.rounds {
		rates = append(rates, m.rate())
		latency.merge(&m.latency)
		failed += m.failed
		if yardstick != nil {
			ratios = append(ratios, m.rate()/yardstick.rounds[i].rate())
		}
	}
	line := row{
		Protocol: r.protocol, Connections: r.load.connections, Pipeline: r.load.pipeline,
		Rate: median(rates), P50: micros(latency.quantile(0.5)), P99: micros(latency.quantile(0.99)),
		Failed: failed,
	}
	if yardstick != nil {
		ratio := median(ratios)
		line.Ratio = &ratio
	}
	return line
}

// yardstick returns what Redis did under the load; nil without Redis.
func (b *bench) yardstick(l load) *result {
	i := slices.IndexFunc(b.results, func(r *result) bool { return r.protocol == "redis" && r.load == l })
	if i < 0 {
		return nil
	}
	return b.results[i]
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	middle := len(values) / 2
	if len(values)%2 == 0 {
		return (values[middle-1] + values[middle]) / 2
	}
	return values[middle]
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
