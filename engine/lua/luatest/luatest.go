// Package luatest compiles and calls scripts for the tests of the engine's packages.
package luatest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

// WantPresentable fails if a stranger's error tells of Go, or is too long.
func WantPresentable(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	e := script.AsError(err)
	if len(e.Message) > 1100 {
		t.Errorf("message of %d bytes", len(e.Message))
	}
	for _, leak := range EngineWords {
		if strings.Contains(e.Message, leak) {
			t.Errorf("message tells %q: %s", leak, e.Message)
		}
	}
}

// Compile compiles a source whose entrypoint is handle.
func Compile(t *testing.T, e engine.Engine, source string) engine.Program {
	t.Helper()
	p, err := e.Compile(engine.Source{Code: []byte(source), Entrypoint: "handle"})
	if err != nil {
		t.Fatalf("%v\n%s", err, source)
	}
	return p
}

// Run calls p and returns its results, one a line.
func Run(t *testing.T, p engine.Program, tenant string, args ...string) (string, error) {
	t.Helper()
	return RunUnder(t, script.Limits{Timeout: Patient}, p, tenant, args...)
}

// Patient is a timeout that no call of a test needs, on a busy machine either.
const Patient = 10 * time.Second

// RunUnder is run with limits. A call that does not come back at all fails the
// test.
func RunUnder(t *testing.T, limits script.Limits, p engine.Program, tenant string, args ...string) (string, error) {
	t.Helper()
	inv := &engine.Invocation{Tenant: tenant, Limits: limits}
	for _, arg := range args {
		inv.Args = append(inv.Args, []byte(arg))
	}
	var res engine.Result
	ended := make(chan error, 1)
	go func() { ended <- p.Run(t.Context(), inv, &res) }()
	select {
	case err := <-ended:
		lines := make([]string, res.Len())
		for i := range lines {
			lines[i] = string(res.Value(i))
		}
		return strings.Join(lines, "\n"), err
	case <-time.After(time.Minute):
		t.Fatal("the call does not end")
		return "", nil
	}
}

// Outcome is what a call of a source with an entrypoint ends with.
func Outcome(t *testing.T, e *lua.Engine, source string, config string, args ...string) string {
	t.Helper()
	p, err := e.Compile(engine.Source{Code: []byte(source), Entrypoint: "handle"})
	if err != nil {
		return "compile: " + err.Error()
	}
	defer p.Close()
	inv := &engine.Invocation{Tenant: "acme", Config: []byte(config)}
	for _, arg := range args {
		inv.Args = append(inv.Args, []byte(arg))
	}
	var res engine.Result
	if err := p.Run(t.Context(), inv, &res); err != nil {
		return fmt.Sprintf("%s: %v", script.KindOf(err), err)
	}
	var values []string
	for i := range res.Len() {
		values = append(values, string(res.Value(i)))
	}
	return strings.Join(values, " ")
}

// Case is a script, or the body of one's handle(a, b), and what becomes of it.
type Case struct {
	Body string
	Args []string
	Want string // the results, one a line
	Fail string // what the error's message holds
	Kind script.Kind
}

// RunCases runs cases, each with a fresh host.
func RunCases(t *testing.T, newHost func() *enginetest.Host, cases []Case) {
	t.Helper()
	e := lua.New()
	for _, c := range cases {
		t.Run("", func(t *testing.T) {
			inv := &engine.Invocation{Tenant: "acme", Script: "edge", Version: 7, Limits: script.Limits{Timeout: Patient}}
			if newHost != nil {
				inv.Host = newHost()
			}
			got, err := Evaluate(t, e, inv, c.Body, c.Args...)
			WantPresentable(t, err)
			switch {
			case err != nil && c.Fail == "":
				t.Errorf("%s\nfails: %v", c.Body, err)
			case err != nil:
				kind := c.Kind
				if kind == "" {
					kind = script.Script
				}
				if e := script.AsError(err); !strings.Contains(e.Message, c.Fail) || e.Kind != kind {
					t.Errorf("%s\nfails with %s %q, not %s %q", c.Body, e.Kind, e.Message, kind, c.Fail)
				}
			case c.Fail != "":
				t.Errorf("%s\nreturns %q, and does not fail with %q", c.Body, got, c.Fail)
			case got != c.Want:
				t.Errorf("%s\nreturns %q, not %q", c.Body, got, c.Want)
			}
		})
	}
}

// Evaluate runs body as the body of handle(a, b), unless it defines handle itself.
func Evaluate(t *testing.T, e engine.Engine, inv *engine.Invocation, body string, args ...string) (string, error) {
	t.Helper()
	if !strings.Contains(body, "function handle") {
		body = "function handle(a, b) " + body + "\nend"
	}
	p := Compile(t, e, body)
	inv.Args = nil
	for _, arg := range args {
		inv.Args = append(inv.Args, []byte(arg))
	}
	var res engine.Result
	err := p.Run(t.Context(), inv, &res)
	lines := make([]string, res.Len())
	for i := range lines {
		lines[i] = string(res.Value(i))
	}
	return strings.Join(lines, "\n"), err
}

// EngineWords are what tells of the inside of the engine.
var EngineWords = []string{"goroutine", "runtime error", ".go:", "traceback", "[G]", "<string>", "0xc0", "fault of the engine"}
