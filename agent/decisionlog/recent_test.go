package decisionlog_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

// TestRecent: a recorder keeps a recorded call that had arguments, with its masks, also without a sink.
func TestRecent(t *testing.T) {
	w, route := start(t, 0, nil), script.Name{Tenant: "acme", Script: "route"}
	if err := w.Ended(t.Context(), call("acme", `{"path":"/not-recorded"}`)); err != nil {
		t.Fatal(err)
	}
	e := call("acme", `{}`)
	e.Decisions, e.Call.Args = &script.Decisions{Sample: 1, Fields: []string{"result"}}, [][]byte{[]byte(`{"path":"/no-field"}`)}
	if err := w.Ended(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if got := w.Recent(route); len(got) != 0 {
		t.Errorf("it keeps what is not recorded: %q", got)
	}
	e = returns(t, call("acme", `{"path":"/a","token":"SECRET-TOKEN"}`), `"SECRET-TOKEN"`)
	e.Decisions = &script.Decisions{Sample: 1, Mask: []string{"token"}}
	if err := w.Ended(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	got := w.Recent(route)
	if len(got) != 1 || strings.Contains(string(got[0]), "SECRET") {
		t.Fatalf("%q", got)
	}
	if r := parse(t, string(got[0])); string(r.Input) != `{"path":"/a","token":"***"}` || r.Script != "route" || r.Version != 3 {
		t.Errorf("%+v", r)
	}
	if got := w.Recent(script.Name{Tenant: "shop", Script: "route"}); len(got) != 0 {
		t.Errorf("of another tenant: %q", got)
	}
}
