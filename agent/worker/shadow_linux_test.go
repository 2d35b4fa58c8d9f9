package worker_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/worker"
	"github.com/scriptorium-dev/scriptorium/script"
)

// inShadow has the candidate shadow all calls.
func inShadow(r *script.Release) {
	r.Settings.Rollout.Steps = []script.Step{{By: script.ByShadow, Percent: 100}}
	r.Candidate.Step = 1
	r.Candidate.Select(r.Settings.Rollout.Steps[0], script.ShadowThreshold(100))
}

// TestACandidateInTheShadowEndsTheProcess: the candidate has lost its process, and the live version does not
// come into quarantine for that.
func TestACandidateInTheShadowEndsTheProcess(t *testing.T) {
	for _, source := range []string{"overflow", uncompilable} {
		t.Run(source, func(t *testing.T) {
			w := newWorld(t, func(c *worker.Config) { onNode1(c); c.Quarantine.Deaths = 1 }, walled("acme"))
			live := w.candidateOf("breaking", inShadow, "one", source)
			answers := func() bool {
				var reply gateway.Reply
				return w.router.Execute(t.Context(), &gateway.Call{Script: "acme/route"}, &reply) == nil && string(reply.Value(0)) == `"one of route"`
			}
			if !w.until(func() bool { return answers() && live.Split.Calls.Ended() }) {
				t.Fatal("the candidate has not lost its process")
			}
			if calls, failed := live.Split.Calls.Read(); source == "overflow" && (calls == 0 || failed == 0) { // else no call has begun
				t.Errorf("%d calls of the candidate, and %d failed ones", calls, failed)
			}
			if !w.until(answers) {
				t.Error("the live version does not answer")
			}
			if q := w.pool.Quarantined(); len(q) != 0 {
				t.Errorf("in quarantine: %v", q)
			}
		})
	}
}
