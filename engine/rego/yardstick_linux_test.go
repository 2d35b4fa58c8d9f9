package rego_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/util"
)

// BenchmarkYardstick measures OPA as a library: loadtest/engines runs it beside the engines, and reads its figures.
func BenchmarkYardstick(b *testing.B) {
	for _, task := range []string{"route", "transform"} {
		b.Run(task+"/OPA, prepared query", func(b *testing.B) { benchmarkOPA(b, task) })
	}
}

func benchmarkOPA(b *testing.B, task string) {
	b.Helper()
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join("../../loadtest/engines/testdata", name))
		if err != nil {
			b.Fatal(err)
		}
		return data
	}
	var config any
	if err := util.UnmarshalJSON(read("config.json"), &config); err != nil {
		b.Fatal(err)
	}
	data := map[string]any{"config": config, "values": map[string]any{"upstreams/cart": "cart-blue"}}
	q, err := oparego.New(oparego.Query("data.acme."+task+".decision"), oparego.Module(task+".rego", string(read(task+".rego"))),
		oparego.Store(inmem.NewFromObject(data))).PrepareForEval(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	argument := read(task + ".json")
	timed(b, func() {
		var input any
		if err := util.UnmarshalJSON(argument, &input); err != nil {
			b.Fatal(err)
		}
		v, err := ast.InterfaceToValue(input)
		if err != nil {
			b.Fatal(err)
		}
		r, err := q.Eval(b.Context(), oparego.EvalParsedInput(v))
		if err != nil || len(r) != 1 {
			b.Fatal(r, err)
		}
		if _, err := json.Marshal(r[0].Expressions[0].Value); err != nil {
			b.Fatal(err)
		}
	})
}

// timed reports the processor time of a call, as the kernel counts it, and latencies.
func timed(b *testing.B, call func()) {
	b.Helper()
	cpu := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	call()
	var took []time.Duration
	start, last := cpu(), time.Now()
	for b.Loop() {
		call()
		now := time.Now()
		took = append(took, now.Sub(last))
		last = now
	}
	b.ReportMetric(float64(cpu()-start)/float64(b.N), "cpu-ns/op")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
	b.ReportMetric(float64(took[(len(took)-1)*99/100]), "p99-ns")
}
