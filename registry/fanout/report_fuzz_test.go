package fanout

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/internal/memtest"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

var anyKey = []byte("key")

// anySession believes that every session has the same key.
type anySession struct{}

func (anySession) Key([]byte) ([]byte, error) { return anyKey, nil }

func (anySession) KeyIDs() []string { return nil }

// FuzzReadReport: whatever comes from NATS is refused or within bounds.
func FuzzReadReport(f *testing.F) {
	token, err := proto.Marshal(&eventv1.Session{Agent: "a", Incarnation: "i"})
	if err != nil {
		f.Fatal(err)
	}
	seed, err := seal.SealStatus(&eventv1.Status{
		Fleet: "F1", Agent: "a", Incarnation: "i", Sequence: 1, ActivatedRevision: 2, Labels: map[string]string{"k": "v"},
		Failures: []*eventv1.Failure{{Key: "releases/acme/route", Revision: 1}, {Key: "values/acme/a/b", Revision: 2}, {Key: "tenants/acme", Revision: 3}},
		Lags:     []*eventv1.Lag{{Tenant: "acme", Above: 1}, {Tenant: "no tenant", Above: -1}},
		Trials:   []*eventv1.Trial{{Key: "releases/acme/route", Version: 2, Attempt: 9, Tested: true, Error: &scriptv1.Error{Message: "x"}, Calls: 1 << 63}},
	}, seal.Session{Token: token, Key: anyKey})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("a", seed)
	f.Add("a", []byte{})
	f.Add("", []byte("\x08\x01\x12\x00"))
	f.Fuzz(func(t *testing.T, agent string, data []byte) {
		r, _, err := OpenReport(anySession{}, agent, data)
		if err != nil {
			return
		}
		if r.Agent != agent || r.Activated < 0 || len(r.Labels) > maxLabels {
			t.Errorf("accepted %+v", r)
		}
		for _, failure := range r.Failures {
			if _, err := fleet.ParseFailureName(failure.Name.String()); err != nil || failure.Err == nil || !utf8.ValidString(failure.Err.Message) {
				t.Errorf("accepted the failure %+v", failure)
			}
		}
		for _, trial := range r.Trials {
			if script.ValidateLabel("tenant", trial.Name.Tenant) != nil || trial.Err != nil && (len(trial.Err.Message) > maxTrialMessage || !utf8.ValidString(trial.Err.Message)) {
				t.Errorf("accepted the trial %+v", trial)
			}
		}
		for tenant := range r.Lags {
			if script.ValidateLabel("tenant", tenant) != nil {
				t.Errorf("accepted a lag of %q", tenant)
			}
		}
		if len(r.Trials) > fleet.MaxTrials {
			t.Errorf("accepted %d trials", len(r.Trials))
		}
		if n := texts(&r); n > maxStatusText {
			t.Errorf("accepted %d bytes of text", n)
		}
	})
}

// texts is how many bytes of the report the agent has worded itself, but for the kinds of errors.
func texts(r *fleet.Report) int {
	n := len(r.Fleet) + len(r.Software) + len(r.Held) + len(strings.Join(r.DiskKeys, "")) + len(strings.Join(r.Tenants.Globs(), ""))
	if r.Disk != nil {
		n += len(r.Disk.Fault)
	}
	for key, value := range r.Labels {
		n += len(key) + len(value)
	}
	cause := func(err *script.Error) {
		if err != nil {
			n += len(err.Field) + len(err.Message)
		}
	}
	for _, failure := range r.Failures {
		cause(failure.Err)
	}
	for _, trial := range r.Trials {
		cause(trial.Err)
		n += len(trial.Waiting)
	}
	return n
}

// hostile is a status of the agent that is as large as it can be, in a session of its own.
func hostile(t *testing.T, agent string) []byte {
	t.Helper()
	token, err := proto.Marshal(&eventv1.Session{Agent: agent, Incarnation: "i"})
	if err != nil {
		t.Fatal(err)
	}
	large := &scriptv1.Error{Kind: strings.Repeat("k", 1500), Field: strings.Repeat("f", 500), Message: strings.Repeat("m", 1000)}
	m := &eventv1.Status{
		Fleet: "F1", Agent: agent, Incarnation: "i", Sequence: 1, Labels: map[string]string{"large": strings.Repeat("l", 4000)},
		Software: strings.Repeat("s", 1024), Held: strings.Repeat("h", 200<<10),
		Disk: &eventv1.Disk{Fault: strings.Repeat("d", 200<<10)},
	}
	for i := range 100 {
		m.Failures = append(m.Failures, &eventv1.Failure{Key: fmt.Sprint("releases/acme/s", i), Revision: 1, Error: large})
		m.Trials = append(m.Trials, &eventv1.Trial{Key: fmt.Sprint("releases/acme/s", i), Version: 1, Attempt: 1, Error: large})
	}
	data, err := seal.SealStatus(m, seal.Session{Token: token, Key: anyKey})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestTextsOfAStatusAreBounded: together, and in memory; and each reason keeps its beginning.
func TestTextsOfAStatusAreBounded(t *testing.T) {
	const agents = 100
	reports := make([]fleet.Report, 0, agents)
	before := memtest.Heap()
	for i := range agents {
		name := fmt.Sprint("n", i)
		r, skipped, err := OpenReport(anySession{}, name, hostile(t, name))
		if err != nil || skipped > 0 || len(r.Failures) != 100 || len(r.Trials) != 100 {
			t.Fatalf("%d failures, %d trials, %d left out: %v", len(r.Failures), len(r.Trials), skipped, err)
		}
		reports = append(reports, r)
	}
	if each := (memtest.Heap() - before) / agents; each > 100<<10 {
		t.Errorf("a status takes %d bytes of memory", each)
	}
	for i := range reports {
		if n := texts(&reports[i]); n > maxStatusText || n < maxStatusText*9/10 {
			t.Fatalf("a status has %d bytes of text, want %d", n, maxStatusText)
		}
	}
	for _, failure := range reports[0].Failures {
		if len(failure.Err.Message) < 30 || len(failure.Err.Kind) > maxKindBytes {
			t.Fatalf("a failure is kept as %+v", failure.Err)
		}
	}
}
