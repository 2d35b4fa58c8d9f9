package scriptorium_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// canaries are a registry with three agents, each a process.
type canaries struct {
	*mistaken
	agents map[string]*daemon
	gates  string // file
	probes int
}

func startCanaries(t *testing.T, flags ...string) *canaries {
	t.Helper()
	return startGated(t, 3, "", flags...)
}

// startGated is startCanaries with so many agents, and a registry that has the file of gates.
func startGated(t *testing.T, agents int, gates string, flags ...string) *canaries {
	t.Helper()
	return startAgentsOn(startMistaken(t), agents, gates, flags...)
}

// startCanariesOn is startCanaries with etcd and NATS that run.
func startCanariesOn(m *mistaken, flags ...string) *canaries {
	m.t.Helper()
	return startAgentsOn(m, 3, "", flags...)
}

func startAgentsOn(m *mistaken, agents int, gates string, flags ...string) *canaries {
	t := m.t
	t.Helper()
	c := &canaries{mistaken: m, agents: map[string]*daemon{}, gates: gates}
	found(t, "--etcd-endpoints", c.etcd.Endpoint(), "--insecure-plaintext")
	c.startRegistry("--gates", gates)
	c.awaitPage(c.admin, http.StatusOK, `"ready":true`)
	for i := range agents {
		c.startNamed(fmt.Sprint("node-", i), flags...)
	}
	c.awaitAgents(agents)
	return c
}

// awaitAgents waits until the registry hears so many agents.
func (c *canaries) awaitAgents(n int) {
	c.t.Helper()
	await(c.t, "the registry knows the agents", func() bool {
		known := 0
		for a, err := range c.client.Agents(c.t.Context(), false) {
			if err == nil && !a.Unknown {
				known++
			}
		}
		return known == n
	})
}

// startNamed starts the agent's process, with more flags.
func (c *canaries) startNamed(name string, flags ...string) {
	dir := filepath.Join(c.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		c.t.Fatal(err)
	}
	c.agents[name] = run(c.t, "agentd", append([]string{
		"--name", name, "--registry", c.registry, "--nats-url", c.nats.URL(), "--admin-address", "",
		"--socket-dir", dir, "--state-dir", filepath.Join(dir, "state"), "--insecure-unsigned", "--insecure-plaintext",
	}, flags...))
}

// kill ends the agent's process at once.
func (c *canaries) kill(name string) {
	_ = c.agents[name].cmd.Process.Kill()
	_ = c.agents[name].cmd.Wait()
}

// release returns acme/route once it is as wanted.
func (c *canaries) release(what string, is func(*script.Release) bool) (r script.Release) {
	c.t.Helper()
	await(c.t, what, func() bool {
		var err error
		r, err = c.client.Get(c.t.Context(), script.Name{Tenant: "acme", Script: "route"})
		return err == nil && is(&r)
	})
	return r
}

// try publishes version 2, which one agent is to run first, for that long, and returns the agent
// once it does.
func (c *canaries) try(pause time.Duration) (canary string) {
	c.t.Helper()
	if _, err := c.client.Publish(c.t.Context(), registryclient.PublishRequest{
		Name: script.Name{Tenant: "acme", Script: "route"}, Source: []byte("function handle() return 2 end"),
		Settings: &script.Settings{Rollout: script.Plan{Steps: []script.Step{{Percent: 30, Pause: pause}, {Percent: 60, Pause: pause}}}},
		Write:    registryclient.Write{Author: "test"},
	}); err != nil {
		c.t.Fatal(err)
	}
	r := c.release("the canary runs the version", func(r *script.Release) bool { return r.Candidate != nil && !r.Candidate.Running.IsZero() })
	for name := range c.agents {
		if r.RunsOn(script.Agent{Name: name}).Number == r.Candidate.Version.Number {
			canary = name
		}
	}
	return canary
}

// killTenants ends the processes that the agent's has started: those of its tenants.
func (c *canaries) killTenants(name string) {
	for pid := range c.children(name) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// children are the processes that the agent's has started, with what /proc/PID/stat has after the name: the
// state, the parent and so on.
func (c *canaries) children(name string) map[int][]string {
	parent, children := fmt.Sprint(c.agents[name].cmd.Process.Pid), map[int][]string{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		_, rest, ok := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if err != nil || !ok || len(fields) < 12 || fields[1] != parent {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat))); err == nil {
			children[pid] = fields
		}
	}
	return children
}

// answered waits until the agent's process of the tenant has answered with the version.
func (c *canaries) answered(name string) {
	c.t.Helper()
	c.answers(name, "2")
}

// answers waits until a call of acme/route on the agent returns what is wanted.
func (c *canaries) answers(name, want string) {
	c.t.Helper()
	c.answersOf(name, "route", want)
}

// answersOf is answers of another script of acme.
func (c *canaries) answersOf(name, of, want string) {
	c.t.Helper()
	caller, err := agentclient.New("unix:" + filepath.Join(c.dir, name, "grpc.sock"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = caller.Close() }()
	await(c.t, name+" answers "+want, func() bool {
		result, err := caller.Call(c.t.Context(), "acme/"+of)
		return err == nil && string(result.Values[0]) == want
	})
}

// TestACanaryThatEnds: a candidate whose agent ends, while it is the only one that runs it, walks
// no further: whether the process starts again at once, or stays away, or ended while the registry
// was away itself. Nor does one whose tenant has a process of its own, which ends.
func TestACanaryThatEnds(t *testing.T) {
	needs.NoRace(t)
	t.Parallel()
	const lost = "%s: ended, lost the tenant's process, or not heard any more, while it was to run version 2 (failureLimit 1)"
	for name, tt := range map[string]struct {
		pause  time.Duration
		tenant script.TenantSettings
		end    func(c *canaries, canary string)
		why    string
	}{
		"and starts again": {time.Hour, script.TenantSettings{}, func(c *canaries, canary string) {
			c.kill(canary)
			c.startNamed(canary)
		}, lost},
		"and stays away": {time.Second, script.TenantSettings{}, (*canaries).kill, lost},
		"and is the tenant's process": {time.Hour, script.TenantSettings{Isolation: script.IsolationProcess}, func(c *canaries, canary string) {
			c.answered(canary)
			c.killTenants(canary)
		}, lost},
		"in good order": {time.Hour, script.TenantSettings{}, func(c *canaries, canary string) { // which is no fault, and no reason to try another
			c.stop(c.agents[canary])
		}, "no agent of step 1 is left: they have left the fleet, or do not follow the script any more"},
		"while the registry is away": {time.Hour, script.TenantSettings{}, func(c *canaries, canary string) {
			c.stop(c.process)
			c.kill(canary)
			c.startNamed(canary)
			c.restartRegistry()
		}, lost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCanaries(t)
			if _, _, err := c.client.SetTenant(t.Context(), "acme", &tt.tenant, registryclient.DataWrite{Author: "test"}); err != nil {
				t.Fatal(err)
			}
			c.publish("function handle() return 1 end")
			canary := c.try(tt.pause)
			tt.end(c, canary)
			r := c.release("the candidate is given up, or live", func(r *script.Release) bool { return r.Candidate == nil || r.Candidate.Failed != "" })
			if want := strings.ReplaceAll(tt.why, "%s", canary); r.Active.Number != 1 || r.Candidate == nil || r.Candidate.Step != 1 || r.Candidate.Failed != want {
				t.Errorf("the release is %+v with the candidate %+v; want it given up: %s", r, r.Candidate, want)
			}
		})
	}
}

// TestACanaryThatFailsMore: a candidate whose calls fail more often than those of the active
// version is given up, and one whose calls fail as often goes on.
func TestACanaryThatFailsMore(t *testing.T) {
	needs.NoRace(t)
	t.Parallel()
	const flaky = "local n = 0 function handle() n = n + 1 if n %% 2 == 0 then error('the backend is down') end return %d end"
	for name, tt := range map[string]struct {
		candidate string
		failed    string
	}{
		"more often": {"function handle() error('no') end", "at most 20 percentage points more may (maxErrorIncrease)"},
		"as often":   {fmt.Sprintf(flaky, 2), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCanaries(t)
			c.publish(fmt.Sprintf(flaky, 1))
			if _, err := c.client.Publish(t.Context(), registryclient.PublishRequest{
				Name: script.Name{Tenant: "acme", Script: "route"}, Source: []byte(tt.candidate),
				Settings: &script.Settings{Rollout: script.Plan{Steps: []script.Step{{Percent: 30}, {Percent: 60}}, MaxErrorIncrease: new(20.0)}},
				Write:    registryclient.Write{Author: "test"},
			}); err != nil {
				t.Fatal(err)
			}
			c.callAll()
			r := c.release("the candidate is in its second step, or given up", func(r *script.Release) bool {
				return r.Candidate == nil || r.Candidate.Failed != "" || r.Candidate.Step > 1
			})
			if r.Candidate == nil || (r.Candidate.Failed != "") != (tt.failed != "") || !strings.HasSuffix(r.Candidate.Failed, tt.failed) {
				t.Errorf("the release is %+v with the candidate %+v", r, r.Candidate)
			}
		})
	}
}

// callAll calls acme/route on all agents until the test ends.
func (c *canaries) callAll() {
	var calling sync.WaitGroup
	c.t.Cleanup(calling.Wait)
	for name := range c.agents {
		caller, err := agentclient.New("unix:" + filepath.Join(c.dir, name, "grpc.sock"))
		if err != nil {
			c.t.Fatal(err)
		}
		calling.Go(func() {
			defer func() { _ = caller.Close() }()
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for c.t.Context().Err() == nil {
				_, _ = caller.Call(c.t.Context(), "acme/route") // half of them fail
				select {
				case <-tick.C:
				case <-c.t.Context().Done():
				}
			}
		})
	}
}
