package editions_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

var (
	beta  = script.ValueKey{Tenant: "acme", Key: "beta"}
	byBob = registryclient.DataWrite{Author: "bob", Note: "a note"}
)

// put writes the value.
func (r *registry) put(content string) {
	r.t.Helper()
	if _, _, err := r.PutValue(r.t.Context(), beta, []byte(content), byBob); err != nil {
		r.t.Fatal(err)
	}
}

// history returns the versions of the value's history, newest first, with how they came.
func (r *registry) history() (lines []string) {
	r.t.Helper()
	history, err := r.ValueHistory(r.t.Context(), beta)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, line := range history.Lines {
		lines = append(lines, fmt.Sprintf("%s v%d", line.Change, line.Version))
	}
	return lines
}

// TestValues: a value has one history, whichever registry writes it. What a registry of the edition
// before has written counts as the next version, and no number gets a second content.
func TestValues(t *testing.T) {
	w := start(t)
	old := w.registry(older)
	old.leads()
	old.put("before")
	r := w.registry(newer)
	a, b := w.agent(older, "a", old, r), w.agent(newer, "b", old, r)
	_, err := r.Publish(t.Context(), registryclient.PublishRequest{Name: route, Source: []byte("function handle() return kv.get('beta') end"), Write: byAnn})
	if err != nil {
		t.Fatal(err)
	}
	live := func(content string) {
		t.Helper()
		for _, agent := range []*agentclient.Client{a, b} {
			w.answers(agent, strconv.Quote(content))
		}
		for _, from := range []*registry{old, r} {
			await(t, "the registry has it", func() error {
				_, got, err := from.Value(t.Context(), beta)
				if err == nil && string(got) != content {
					err = fmt.Errorf("it has %q, want %q", got, content)
				}
				return err
			})
		}
	}
	back := func(version uint64) {
		t.Helper()
		if _, _, err := r.RollbackValue(t.Context(), beta, version, byBob); err != nil {
			t.Fatal(err)
		}
	}
	live("before")
	r.put("two")
	live("two")
	old.put("three")
	live("three")
	back(1)
	live("before")
	old.put("four")
	r.put("five")
	live("five")
	want := "[put v5 put v4 rollback v1 put v3 put v2 put v1]"
	if got := fmt.Sprint(r.history()); got != want {
		t.Errorf("the history is %s, want %s", got, want)
	}
	for version, content := range map[uint64]string{1: "before", 2: "two", 3: "three", 4: "four", 5: "five"} {
		if _, got, err := r.ValueVersion(t.Context(), beta, version); err != nil || string(got) != content {
			t.Errorf("version %d is %q, %v, want %q", version, got, err, content)
		}
	}
	if _, _, err := old.RollbackValue(t.Context(), beta, 2, byBob); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "upgrade it") {
		t.Errorf("a rollback at the older registry: %v", err)
	}

	if _, err := old.DeleteValue(t.Context(), beta, byBob); err != nil {
		t.Fatal(err)
	}
	back(2)
	live("two")
	before := r.history()
	old.stop()
	r.leads()
	if got := r.history(); !slices.Equal(got, before) {
		t.Errorf("after the upgrade the history is %v, want %v", got, before)
	}
	r.put("last")
	for _, agent := range []*agentclient.Client{a, b} {
		w.answers(agent, `"last"`)
	}
	for f, err := range r.Doctor(t.Context(), registryclient.DoctorOptions{}) {
		t.Errorf("the doctor finds %+v, %v", f, err)
	}
}

// TestValuesWhoseContentsAreCollected: the collector of the edition before knows no older versions,
// and removes their contents. A rollback to such a version says so, and what is live stays.
func TestValuesWhoseContentsAreCollected(t *testing.T) {
	w := start(t)
	old := w.registry(older, "--collect-interval", "500ms")
	old.leads()
	r := w.registry(newer, "--collect-interval", "500ms")
	r.put("one")
	r.put("two")
	await(t, "the content of version 1 is gone", func() error {
		if _, _, err := r.ValueVersion(t.Context(), beta, 1); script.KindOf(err) != script.NotFound {
			return fmt.Errorf("not gone: %w", err)
		}
		return nil
	})
	if _, _, err := r.RollbackValue(t.Context(), beta, 1, byBob); script.KindOf(err) != script.NotFound {
		t.Errorf("a rollback to it: %v", err)
	}
	if _, got, err := r.Value(t.Context(), beta); err != nil || string(got) != "two" {
		t.Errorf("live is %q, %v", got, err)
	}
	old.stop()
	r.leads()
	r.put("three")
	if _, _, err := r.RollbackValue(t.Context(), beta, 2, byBob); err != nil {
		t.Errorf("a rollback after the upgrade: %v", err)
	}
}
