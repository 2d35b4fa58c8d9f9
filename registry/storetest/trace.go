package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// testTransactionsHaveTraces: who watches learns which trace made each transaction. A store that
// makes a span has that of the span, in the same trace.
func (h Harness) testTransactionsHaveTraces(t *testing.T) {
	s := h.Open(t)
	caller, _ := tracecontext.Parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	ctx := tracecontext.With(t.Context(), caller)
	if _, err := s.Commit(ctx, publish(script.Release{}, named(1), "x")); err != nil {
		t.Fatal(err)
	}
	commit(t, s, publish(script.Release{}, named(2), "x")) // without a trace
	if _, _, err := rules(s).PutValue(ctx, registry.PutValue{Key: keyed("acme", "a"), Content: []byte("x"), Author: "ann", By: access.Everybody("unix")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CommitTogether(ctx, registry.Together{Releases: []registry.Commit{publish(script.Release{}, named(3), "x")}, Set: changeSet("one")}); err != nil {
		t.Fatal(err)
	}
	commit(t, s, publish(script.Release{}, named(4), "x")) // after it, nothing of it is left
	watching, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	want := []tracecontext.Context{caller, {}, caller, caller, {}}
	n := 0
	for transaction, err := range s.Watch(watching, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if transaction.Trace != want[n] {
			t.Errorf("transaction %d has the trace %v, want %v", n, transaction.Trace, want[n])
		}
		if n++; n == len(want) {
			return
		}
	}
	t.Errorf("%d transactions came, want %d", n, len(want))
}
