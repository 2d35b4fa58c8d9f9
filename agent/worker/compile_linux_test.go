package worker_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

// TestUncompilable: a script that kills the process while it is compiled, whoever asked
// for that, does not keep the tenant's other scripts from being served. It comes into
// quarantine, and so does another one with the same source.
func TestUncompilable(t *testing.T) {
	w := newWorld(t, nil, walled("acme"))
	w.publish("breaking", "acme/good", "fine")
	w.answer("acme/good")
	w.publish("breaking", "acme/twin", uncompilable)
	w.publish("breaking", "acme/bad", uncompilable)
	refused := func(ref string) bool {
		_, err := w.call(ref)
		return script.KindOf(err) == script.Unavailable && strings.Contains(err.Error(), "quarantine")
	}
	if !w.until(func() bool { return refused("acme/bad") && refused("acme/twin") }) {
		t.Fatalf("in quarantine: %+v", w.pool.Quarantined())
	}
	if got := w.answer("acme/good"); got != `"fine of good"` {
		t.Errorf("got %s", got)
	}
	pid := w.pid("acme")
	for range 20 {
		if !refused("acme/bad") || !refused("acme/twin") {
			t.Error("it ran again")
		}
	}
	if got := w.answer("acme/good"); got != `"fine of good"` || w.pid("acme") != pid {
		t.Errorf("got %s, and the process was replaced", got)
	}
}
