package wasm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// goGuest builds the module of testdata/goguest.
func goGuest(tb testing.TB) []byte {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "guest.wasm")
	cmd := exec.CommandContext(tb.Context(), "go", "build", "-trimpath", "-buildmode=c-shared", "-ldflags=-s -w", "-o", file, "./testdata/goguest")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("go build: %v\n%s", err, out)
	}
	code, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return code
}

// goInvocation is a call of a Go guest, whose beginning takes a few million instructions.
func goInvocation(arg string) *engine.Invocation {
	inv := invocation(arg)
	inv.Limits = script.MaxLimits()
	return inv
}

func TestGoGuest(t *testing.T) {
	code := goGuest(t)
	e := newEngine(t)
	for _, reuse := range []bool{false, true} {
		p := compile(t, e, code, reuse)
		host := &enginetest.Host{Values: map[string]map[string]string{"acme": {"k": "value"}}}
		ask := func(arg string) (string, error) {
			inv := goInvocation(arg)
			inv.Host, inv.Config = host, []byte(`{"limit":10}`)
			return run(t, p, inv)
		}
		for range 3 {
			for _, step := range []struct{ arg, want string }{
				{`{"echo":{"a":[1,2,"é"]}}`, `{"a":[1,2,"é"]}`},
				{`{"do":"count"}`, `1`},
				{`{"do":"grow","n":3000000}`, `3000000`},
				{`{"do":"config"}`, `{"limit":10}`},
				{`{"do":"get","text":"k"}`, `"value"`},
				{`{"do":"get","text":"none"}`, `null`},
				{`{"do":"environ"}`, `[]`},
				{`{"do":"open","text":"/etc/passwd"}`, `"open /etc/passwd: Bad file number"`},
			} {
				if got, err := ask(step.arg); err != nil || got != step.want {
					t.Errorf("%s: %s, %v, want %s", step.arg, got, err, step.want)
				}
			}
		}
		if got, err := ask(`{"do":"print","text":"hello"}`); err != nil || got != "null" {
			t.Errorf("print: %s, %v", got, err)
		}
		lines := host.Lines()
		if len(lines) != 2 || lines[0].Level != engine.Info || lines[1].Level != engine.Error || lines[0].Message != "hello" || lines[1].Message != "hello" {
			t.Errorf("logged %+v", lines)
		}
		goFailures(t, ask)
		inv := goInvocation(`{"do":"now"}`)
		inv.Clock = func() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC) }
		want(t, p, inv, `"2030-01-02T03:04:05.000000006Z"`)
	}
}

func goFailures(t *testing.T, ask func(arg string) (string, error)) {
	t.Helper()
	for _, step := range []struct {
		arg, want string
		kind      script.Kind
	}{
		{`{"do":"panic","text":"boom"}`, "panic: boom", script.Script},
		{`{"do":"exit","n":3}`, "status 3", script.Script},
		{`{"do":"spin"}`, "instructions", script.Limit},
		{`{"do":"grow","n":100000000}`, "out of memory", script.Script},
	} {
		_, err := ask(step.arg)
		if err == nil || script.KindOf(err) != step.kind || !strings.Contains(err.Error(), step.want) {
			t.Errorf("%s: %v (%s), want %s with %q", step.arg, err, script.KindOf(err), step.kind, step.want)
		}
		if got, err := ask(`{"do":"count"}`); err != nil || got != "1" {
			t.Errorf("after %s: %s, %v", step.arg, got, err)
		}
	}
}
