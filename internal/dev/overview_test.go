package dev_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/dev"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestWhatTheStartWaitsFor: only for what can still become live by itself, and soon.
func TestWhatTheStartWaitsFor(t *testing.T) {
	status := func(name string, change func(*registryclient.ScriptStatus)) registryclient.ScriptStatus {
		s := registryclient.ScriptStatus{Desired: 3, Release: script.Release{
			Name: script.Name{Tenant: "acme", Script: name}, Revision: 9, Active: script.Version{Number: 1},
		}}
		change(&s)
		return s
	}
	candidate := func(s *registryclient.ScriptStatus, failed string) {
		s.Release.Candidate = &script.Candidate{Version: script.Version{Number: 2}, Failed: failed}
	}
	failure := []registryclient.AgentFailure{{Agent: "agent-1", Err: &script.Error{Message: "no"}}}
	live := status("live", func(s *registryclient.ScriptStatus) { s.Active, s.Converged = 3, true })
	for name, test := range map[string]struct {
		connected int
		status    registryclient.ScriptStatus
		want      string
	}{
		"nothing":         {3, live, ""},
		"agents":          {1, live, "waiting for 3 agents: 1 are connected"},
		"one agent":       {3, status("x", func(s *registryclient.ScriptStatus) { s.Active = 2 }), "waiting for 3 agents: acme/x v1 is on its way, and runs on 2/3 agents"},
		"a roll call":     {3, status("x", func(s *registryclient.ScriptStatus) { s.Active = 3 }), "waiting for 3 agents: acme/x v1 runs on 3/3 agents, which have yet to confirm it"},
		"not all failed":  {3, status("x", func(s *registryclient.ScriptStatus) { s.Failed, s.Failures = 1, failure }), "waiting for 3 agents: acme/x v1 is on its way, and runs on 0/3 agents; agent-1 keeps what it had: no"},
		"all have failed": {3, status("x", func(s *registryclient.ScriptStatus) { s.Failed, s.Active, s.Failures = 1, 2, failure }), ""},
		"tests": {3, status("x", func(s *registryclient.ScriptStatus) {
			candidate(s, "")
			s.Trials, s.Failed, s.Failures = &registryclient.Trials{Passed: 1, Waiting: 1}, 1, failure
		}), "waiting for 3 agents: acme/x v2 is tested, and passed on 1/3 agents; it failed on agent-1: no"},
		"a failed candidate": {3, status("x", func(s *registryclient.ScriptStatus) { candidate(s, "tests[a]: no"); s.Failed = 1 }), ""},
		"a step": {3, status("x", func(s *registryclient.ScriptStatus) {
			candidate(s, "")
			s.Release.Candidate.Step, s.Release.Settings.Rollout.Steps = 1, []script.Step{{Percent: 10}}
			s.Trials = &registryclient.Trials{Waiting: 1}
		}), "waiting for 3 agents: acme/x v2 is rolled out to 10 % of the agents"},
		"a pause": {3, status("x", func(s *registryclient.ScriptStatus) {
			candidate(s, "")
			s.Release.Candidate.Step, s.Trials = 1, &registryclient.Trials{}
		}), ""},
	} {
		got := dev.WaitsFor(3, registryclient.StatusChange{Full: true, FleetStatus: registryclient.FleetStatus{
			Connected: test.connected, Scripts: []registryclient.ScriptStatus{live, test.status},
		}})
		if got != test.want {
			t.Errorf("%s: it waits for %q, want %q", name, got, test.want)
		}
	}
}

// TestProgress: nobody waits for more than a second without a word, and what is quick is
// not spoken of.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := dev.StartProgress(&out)
		p.WaitFor("one")
		<-time.After(900 * time.Millisecond)
		p.WaitFor("two")
		<-time.After(4 * time.Second)
		p.WaitFor("three")
		<-time.After(time.Second)
		p.WaitFor("four")
		p.Stop()
		if lines := strings.Fields(out.String()); strings.Join(lines, " ") != "two three" {
			t.Errorf("it said %q", lines)
		}
	})
}
