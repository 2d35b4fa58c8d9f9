package local_test

import (
	"slices"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestAKeyThatIsNoText: one that somebody put among those of a registry keeps nobody from the
// others: what names it could not be sent.
func TestAKeyThatIsNoText(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	s.converge(s.publish(1).Release.Revision)
	for _, key := range []string{"releases/acme/\xff", "releases/\xff/x", "values/acme/\xff", "tenants/\xff", "fleet/agents/\xff"} {
		s.spoil(key, "")
	}
	s.spoil("tenants/other", "garbage")
	unreadable := []string{"tenants/other"}
	for range 2 {
		s.unreadable(unreadable...)
		if found := s.doctor(registryclient.DoctorOptions{}); len(found) != 1 {
			t.Errorf("doctor finds %+v", found)
		}
		for fleet, err := range s.registry.WatchStatus(ctx, script.Name{}) {
			if err != nil || !slices.ContainsFunc(fleet.Scripts, func(one registryclient.ScriptStatus) bool { return one.Release.Name == name }) {
				t.Errorf("the status is %+v, %v", fleet, err)
			}
			break
		}
		s.restartRegistry()
		s.agentsKnown(len(s.agents))
		s.agents = append(s.agents, s.join(len(s.agents)+1))
		s.awaitAnswer(len(s.agents)-1, answer(1))
	}
	s.noDrift(1)
	s.publish(2)
	for i := range s.agents {
		s.awaitAnswer(i, answer(2))
	}
}
