package instrument_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// program compiles testdata/program, a program of a few thousand functions.
func program(tb testing.TB, flags ...string) []byte {
	tb.Helper()
	out := filepath.Join(tb.TempDir(), "program.wasm")
	cmd := exec.CommandContext(tb.Context(), "go", slices.Concat([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", out}, flags, []string{"./testdata/program"})...)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("go build: %v\n%s", err, text)
	}
	code, err := os.ReadFile(out)
	if err != nil {
		tb.Fatal(err)
	}
	return code
}

// runProgram runs a WASI command and returns what it wrote.
func runProgram(tb testing.TB, h *host, compiled wazero.CompiledModule, args ...string) string {
	tb.Helper()
	var out bytes.Buffer
	config := wazero.NewModuleConfig().WithName("").WithArgs(append([]string{"program"}, args...)...).WithStdout(&out).WithStderr(&out)
	mod, err := h.runtime.InstantiateModule(tb.Context(), compiled, config)
	if err != nil && !exitedWell(err) {
		tb.Fatalf("%v\n%s", err, out.String())
	}
	if mod != nil {
		mod.Close(tb.Context())
	}
	return out.String()
}

// TestProgram compares a large program with itself, rewritten.
func TestProgram(t *testing.T) {
	code := program(t)
	h := newHost(t)
	wasi_snapshot_preview1.MustInstantiate(t.Context(), h.runtime)
	h.left.Store(1 << 40)
	m := rewrite(t, code)
	t.Logf("%d bytes, rewritten %d", len(code), len(m.Code))
	compile := func(code []byte) wazero.CompiledModule {
		compiled, err := h.runtime.CompileModule(t.Context(), code)
		if err != nil {
			t.Fatal(err)
		}
		return compiled
	}
	want := runProgram(t, h, compile(code), "all")
	if h.refills.Load() != 0 {
		t.Fatal("the original has called the meter")
	}
	got := runProgram(t, h, compile(m.Code), "all")
	if got != want || len(got) < 100 {
		t.Errorf("the rewritten program writes %q, the original %q", got, want)
	}
	if h.refills.Load() < 10 {
		t.Errorf("%d refills", h.refills.Load())
	}
}
