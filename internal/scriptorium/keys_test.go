package scriptorium_test

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// users is how many keys call.
const users = 200

// callers are clients of the agents.
func (c *canaries) callers() map[string]*agentclient.Client {
	callers := map[string]*agentclient.Client{}
	for name := range c.agents {
		caller, err := agentclient.New("unix:" + filepath.Join(c.dir, name, "grpc.sock"))
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { _ = caller.Close() })
		callers[name] = caller
	}
	return callers
}

// byUser calls acme/route for each user on each agent, and returns what they get. For a user this has to
// be the same everywhere.
func (c *canaries) byUser(callers map[string]*agentclient.Client) (answers [users]string) {
	c.t.Helper()
	for name, caller := range callers {
		for i := range users {
			answer := c.answerTo(caller, i)
			if answers[i] != "" && answers[i] != answer {
				c.t.Errorf("user-%d gets %s on %s, and %s elsewhere", i, answer, name, answers[i])
			}
			answers[i] = answer
		}
	}
	return answers
}

// answerTo is what the user gets, or the kind of the error.
func (c *canaries) answerTo(caller *agentclient.Client, user int) string {
	result, err := caller.Call(agentclient.ContextWithKey(c.t.Context(), fmt.Sprint("user-", user)), "acme/route")
	if err != nil {
		return string(script.KindOf(err))
	}
	return string(result.Values[0])
}

// isIn reports whether the user is in the share of keys that runs the version.
func isIn(version, percent, user int) bool {
	return cache.KeyBucket(fmt.Sprintf("acme/route@%d", version), fmt.Sprint("user-", user)) < script.KeyThreshold(percent)
}

// share wants the users to get the candidate that the version's share of keys has, and others the
// active version.
func (c *canaries) share(when string, answers [users]string, version, percent int, candidate, active string) {
	c.t.Helper()
	n := 0
	for i, got := range answers {
		want := active
		if isIn(version, percent, i) {
			want = candidate
			n++
		}
		if got != want {
			c.t.Errorf("%s user-%d gets %s, want %s", when, i, got, want)
		}
	}
	p := float64(percent) / 100
	if off := math.Abs(float64(n) - users*p); off > 5*math.Sqrt(users*p*(1-p)) {
		c.t.Errorf("%s %d of %d users get version %d, want about %d %%", when, n, users, version, percent)
	}
}

// TestSameVersionForAUser: in steps by key a user gets the same version on every agent, from step to
// step. A candidate that fails for its users is given up, and no other user ever gets it. In the agents'
// own process and in tenants' processes alike.
func TestSameVersionForAUser(t *testing.T) {
	needs.Time(t, "starts twelve processes")
	needs.NoRace(t)
	t.Parallel()
	for _, isolation := range []script.Isolation{script.IsolationShared, script.IsolationProcess} {
		t.Run(string(isolation), func(t *testing.T) {
			t.Parallel()
			c := startCanaries(t)
			if _, _, err := c.client.SetTenant(t.Context(), "acme", &script.TenantSettings{Isolation: isolation}, registryclient.DataWrite{Author: "test"}); err != nil {
				t.Fatal(err)
			}
			c.publish(returning(1))
			for name := range c.agents {
				c.answers(name, "1")
			}
			callers := c.callers()
			key := func(percent int) script.Step { return script.Step{By: script.ByKey, Percent: percent, Approval: true} }
			c.plan("route", 2, &script.Plan{Steps: []script.Step{key(10), key(40)}, MaxErrorIncrease: new(5.0), MinCalls: new(10)})
			runs := func(step int) {
				t.Helper()
				c.release(fmt.Sprintf("all agents run it in step %d", step), func(r *script.Release) bool {
					return r.Candidate != nil && r.Candidate.Step == step && !r.Candidate.Running.IsZero()
				})
			}
			runs(1)
			c.share("in step 1", c.byUser(callers), 2, 10, "2", "1")
			for name := range c.agents {
				c.answers(name, "1") // without a key
			}
			c.steer("route", registryclient.Approve)
			runs(2)
			c.share("in step 2", c.byUser(callers), 2, 40, "2", "1")
			c.awaitWhy("step 2 needs an approval: scriptctl rollout approve acme/route") // so there were calls of both
			c.steer("route", registryclient.Approve)
			c.release("it is live everywhere", func(r *script.Release) bool { return r.Active.Number == 2 && r.Candidate == nil })
			for name := range c.agents {
				c.answers(name, "2")
			}

			if _, err := c.client.Publish(t.Context(), registryclient.PublishRequest{
				Name: of("route"), Source: []byte("function handle() error('no') end"), Write: by,
				Settings: &script.Settings{Rollout: script.Plan{Steps: []script.Step{{By: script.ByKey, Percent: 20, Pause: time.Hour}}, MaxErrorIncrease: new(5.0)}},
			}); err != nil {
				t.Fatal(err)
			}
			runs(1)
			failed := 0
			await(t, "nobody gets it any more", func() bool {
				before := failed
				for name, caller := range callers {
					for i := range users {
						switch got := c.answerTo(caller, i); {
						case got == "2": // or not any more
						case got == "SCRIPT" && isIn(3, 20, i):
							failed++
						default:
							t.Fatalf("user-%d gets %s on %s", i, got, name)
						}
					}
				}
				return failed > 0 && failed == before
			})
			r := c.release("it is given up", func(r *script.Release) bool { return r.Candidate == nil || r.Candidate.Failed != "" })
			if r.Active.Number != 2 || r.Candidate == nil || r.Candidate.Step != 1 {
				t.Errorf("the release is %+v with the candidate %+v", r, r.Candidate)
			}
		})
	}
}
