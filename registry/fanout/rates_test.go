package fanout

import (
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/session"
)

// TestRatesOfIdentities: who reports too often under a name leaves room for others of the name.
func TestRatesOfIdentities(t *testing.T) {
	r, now := rates{}, time.Unix(1, 0)
	flood := session.Session{Agent: "a", Identity: "ci"}
	for range reportsAtOnce {
		if err := r.admit(flood, now); err != nil {
			t.Fatal(err)
		}
	}
	if r.admit(flood, now) == nil {
		t.Error("a flood is admitted")
	}
	if err := r.admit(session.Session{Agent: "a", Identity: "agents"}, now); err != nil {
		t.Error(err)
	}
}
