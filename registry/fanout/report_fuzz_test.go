package fanout

import (
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

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

// FuzzReadReport: whatever comes from NATS is refused or within bounds.
func FuzzReadReport(f *testing.F) {
	token, err := proto.Marshal(&eventv1.Session{Agent: "a", Incarnation: "i"})
	if err != nil {
		f.Fatal(err)
	}
	seed, err := seal.SealStatus(&eventv1.Status{
		Fleet: "F1", Agent: "a", Incarnation: "i", Sequence: 1, ActivatedRevision: 2, Labels: map[string]string{"k": "v"},
		Failures: []*eventv1.Failure{{Key: "releases/acme/route", Revision: 1}, {Key: "values/acme/a/b", Revision: 2}, {Key: "tenants/acme", Revision: 3}},
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
		if len(r.Trials) > fleet.MaxTrials {
			t.Errorf("accepted %d trials", len(r.Trials))
		}
	})
}
