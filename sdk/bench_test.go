package sdk_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/internal/sdkbuild"
)

// BenchmarkRoute calls the example in all languages, and counts its instructions.
func BenchmarkRoute(b *testing.B) {
	e := newEngine(b)
	for _, language := range sdkbuild.Languages() {
		code := sdkbuild.Module(b, language, "route")
		for name, reuse := range map[string]bool{"fresh": false, "reuse": true} {
			b.Run(language+"/"+name, func(b *testing.B) {
				program := compile(b, e, code, reuse)
				host := &enginetest.Host{}
				var used engine.Used
				var result engine.Result
				for b.Loop() {
					used = engine.Used{}
					inv := &engine.Invocation{Tenant: tenant, Host: host, Args: [][]byte{[]byte(routed[2].request)}, Config: []byte(config), Limits: limits(), Used: &used}
					if err := program.Run(b.Context(), inv, &result); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(used.Instructions), "instructions/op")
			})
		}
	}
}
