package wasm_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/wasm"
)

// BenchmarkCompile checks and compiles a module of some 3 MB, with and without what an earlier process has left.
func BenchmarkCompile(b *testing.B) {
	src := engine.Source{Code: goGuest(b)}
	dir := b.TempDir()
	for _, c := range []struct {
		name   string
		config wasm.Config
	}{{"compile", wasm.Config{}}, {"fill the cache", wasm.Config{CacheDir: dir}}, {"cached", wasm.Config{CacheDir: dir}}, {"interpreter", wasm.Config{Interpreter: true}}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				e, err := wasm.New(c.config)
				if err != nil {
					b.Fatal(err)
				}
				p, err := e.Compile(src)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(p.Size()), "size")
			}
		})
	}
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		defer cpu(b)()
		for b.Loop() {
			if err := (wasm.Checker{}).Check(src); err != nil {
				b.Fatal(err)
			}
		}
	})
}
