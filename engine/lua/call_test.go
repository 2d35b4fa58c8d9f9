package lua_test

import (
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// wantPresentable fails if a stranger's error tells of Go, or is too long.
func wantPresentable(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	e := script.AsError(err)
	if len(e.Message) > 1100 {
		t.Errorf("message of %d bytes", len(e.Message))
	}
	for _, leak := range engineWords {
		if strings.Contains(e.Message, leak) {
			t.Errorf("message tells %q: %s", leak, e.Message)
		}
	}
}

func compile(t *testing.T, e engine.Engine, source string) engine.Program {
	t.Helper()
	p, err := e.Compile(engine.Source{Code: []byte(source), Entrypoint: "handle"})
	if err != nil {
		t.Fatalf("%v\n%s", err, source)
	}
	return p
}

// run calls p and returns its results, one a line.
func run(t *testing.T, p engine.Program, tenant string, args ...string) (string, error) {
	t.Helper()
	return runUnder(t, script.Limits{Timeout: patient}, p, tenant, args...)
}

// patient is a timeout that no call of a test needs, on a busy machine either.
const patient = 10 * time.Second

// runUnder is run with limits. A call that does not come back at all fails the
// test.
func runUnder(t *testing.T, limits script.Limits, p engine.Program, tenant string, args ...string) (string, error) {
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
