package scriptorium_test

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// approved is a plan of one step, which takes one agent of three until somebody approves it.
var approved = script.Plan{Steps: []script.Step{{Percent: 30, Approval: true}}, FailureLimit: script.Amount{Count: 2}}

const approval = "step 1 needs an approval: scriptctl rollout approve acme/route"

// toApproval has version 2 of acme/route wait for an approval, and returns the agent that runs it.
func (c *canaries) toApproval(plan script.Plan) (canary string) {
	c.t.Helper()
	c.plan("route", 1, nil)
	c.plan("route", 2, &plan)
	c.waits("route", approval)
	return c.canary("route")
}

// restart ends the agent's process at once, and starts another.
func (c *canaries) restart(agent string, flags ...string) {
	c.kill(agent)
	c.startNamed(agent, flags...)
}

// heard waits until the registry has heard so many agents, each since now.
func (c *canaries) heard(agents int) {
	c.t.Helper()
	c.probes++
	c.plan("probe", c.probes, nil)
	await(c.t, "all agents report", func() bool {
		fleet, err := c.client.Status(c.t.Context(), of("probe"))
		return err == nil && fleet.Connected == agents && fleet.Scripts[0].Converged && fleet.Scripts[0].Active == agents
	})
}

// lost wants these agents to be lost, and the candidate to go on.
func (c *canaries) lost(want ...string) {
	c.t.Helper()
	r := c.is("route", "has a candidate", func(r *script.Release) bool { return r.Candidate != nil && len(r.Candidate.Lost) >= len(want) })
	if !slices.Equal(r.Candidate.Lost, want) || r.Candidate.Failed != "" || r.Candidate.Step != 1 {
		c.t.Errorf("lost are %v, want %v; the candidate is %+v", r.Candidate.Lost, want, r.Candidate)
	}
}

// TestLostAgents: who counts as lost, and what that does to the candidate.
func TestLostAgents(t *testing.T) {
	needs.Time(t, "starts five processes for each case")
	needs.NoRace(t)
	t.Parallel()
	for name, test := range map[string]func(t *testing.T){
		"one that restarts twice, and bystanders": restartsTwice,
		"NATS is down":                         natsIsDown,
		"with other labels":                    otherLabels,
		"in good order while no registry runs": inGoodOrder,
		"one that cannot store the candidate":  cannotStore,
		"one that has it in quarantine":        inQuarantine,
		"one that cannot compile it":           cannotCompile,
		"one whose process another one ends":   anotherEndsIt,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// restartsTwice: a canary that restarts counts once. An agent that does not run the candidate does not
// count, and neither does one that was not heard when it began.
func restartsTwice(t *testing.T) {
	t.Helper()
	c := startGated(t, 4, "")
	canary := c.canary("route")
	others := c.others(canary)
	c.kill(others[0])
	c.awaitAgents(3)
	c.toApproval(approved)
	c.restart(others[1])
	c.startNamed(others[0])
	c.heard(4)
	c.lost()
	c.restart(canary)
	c.lost(canary)
	c.heard(4)
	c.restart(canary)
	c.heard(4)
	c.lost(canary)
	c.steer("route", registryclient.Approve)
	c.live("route", 2)
}

// natsIsDown: nobody is heard, so nobody is lost, and the rollout goes on when all are back.
func natsIsDown(t *testing.T) {
	t.Helper()
	c := startGated(t, 3, "")
	plan := approved
	plan.FailureLimit = script.Amount{}
	c.toApproval(plan)
	port := c.nats.Port()
	c.nats.Stop()
	c.waits("route", "no agent follows the script, or they have yet to report")
	nats, err := embedded.StartNATS(t.Context(), embedded.NATSConfig{Port: port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nats.Stop)
	c.waits("route", approval)
	c.lost()
	c.steer("route", registryclient.Approve)
	c.live("route", 2)
}

// otherLabels: a canary that restarts with other labels is lost, and leaves its step without agents.
func otherLabels(t *testing.T) {
	t.Helper()
	c := startGated(t, 2, "", "--labels", "zone=a")
	c.startNamed("node-2", "--labels", "zone=b")
	c.awaitAgents(3)
	for name, limit := range map[string]int{"one": 1, "two": 2} {
		c.plan(name, 1, nil)
		c.plan(name, 2, &script.Plan{Steps: []script.Step{{Selector: "zone=b", Approval: true}}, FailureLimit: script.Amount{Count: limit}})
		c.waits(name, "step 1 needs an approval: scriptctl rollout approve acme/"+name)
	}
	c.restart("node-2", "--labels", "zone=c")
	if why := c.fails("one"); !strings.HasPrefix(why, "node-2: ended") {
		t.Errorf("with a limit of one: %s", why)
	}
	if why := c.fails("two"); why != "no agent of step 1 is left: they have left the fleet, do not follow the script any more, or do not have the labels zone=b any more" {
		t.Errorf("with a limit of two: %s", why)
	}
}

// inGoodOrder: a registry cannot tell how an agent ended while none ran.
func inGoodOrder(t *testing.T) {
	t.Helper()
	c := startGated(t, 3, "")
	canary := c.toApproval(approved)
	c.stop(c.process)
	c.stop(c.agents[canary])
	c.startNamed(canary)
	c.restartRegistry()
	c.lost(canary)
}

// cannotStore: an agent that may get over what keeps it from the candidate is waited for, and named,
// unless it is tolerated.
func cannotStore(t *testing.T) {
	t.Helper()
	c := startGated(t, 3, "")
	c.plan("route", 1, nil)
	c.plan("spare", 1, nil)
	mended := c.cannotStore("node-1", large(2))
	c.publishLarge("route", 2, script.Plan{Steps: approved.Steps})
	c.publishLarge("spare", 2, script.Plan{Steps: []script.Step{{Percent: 60}}, Tolerate: script.Amount{Count: 2}})
	c.waits("route", "2 of 3 agents have taken the last change, and 3 must")
	fleet, err := c.client.Status(t.Context(), of("route"))
	if err != nil || !slices.Equal(fleet.Scripts[0].Trials.WaitingFor, []string{"node-1"}) || !strings.Contains(fleet.Scripts[0].Trials.WaitingWhy, "blobs") {
		t.Errorf("%v, it waits for %+v", err, fleet.Scripts[0].Trials)
	}
	c.live("spare", 2)
	mended()
	c.waits("route", approval)
	c.lost()
}

// inQuarantine: a candidate that ends the process of its tenant again and again is given up, though
// agents that are lost are tolerated.
func inQuarantine(t *testing.T) {
	t.Helper()
	c := startGated(t, 3, "")
	isolated := script.TenantSettings{Isolation: script.IsolationProcess}
	if _, _, err := c.client.SetTenant(t.Context(), "acme", &isolated, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	c.plan("route", 1, nil)
	if _, err := c.client.Publish(t.Context(), registryclient.PublishRequest{
		Name: of("route"), Source: []byte("function handle() while true do end end"), Write: by,
		Settings: &script.Settings{Spec: script.Spec{Limits: script.Limits{Instructions: 100_000_000, Timeout: 10 * time.Second}}, Rollout: approved},
	}); err != nil {
		t.Fatal(err)
	}
	c.waits("route", approval)
	canary := c.canary("route")
	caller, err := agentclient.New("unix:" + filepath.Join(c.dir, canary, "grpc.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	r := c.is("route", "is given up", func(r *script.Release) bool {
		if r.Candidate == nil || r.Candidate.Failed != "" {
			return true
		}
		kill := time.AfterFunc(200*time.Millisecond, func() { c.killTenants(canary) })
		defer kill.Stop()
		_, _ = caller.Call(t.Context(), "acme/route") // it runs alone, for longer
		return false
	})
	if r.Candidate == nil || !strings.Contains(r.Candidate.Failed, "quarantine") {
		t.Errorf("it is given up: %+v", r.Candidate)
	}
}

// cannotCompile: the agents cannot compile what the engine of the registry takes. The candidate is given up, and
// what was live goes on.
func cannotCompile(t *testing.T) {
	t.Helper()
	m := startMistaken(t)
	m.environment = []string{engineVariable + "=new"}
	c := startAgentsOn(m, 3, "")
	const newer = "function handle() return 2 // 1 end"
	for name, s := range map[string]script.Settings{
		"steps": {Rollout: approved},
		"tests": {Spec: script.Spec{Tests: []script.Test{{Name: "it works"}}}},
	} {
		c.plan(name, 1, nil)
		c.publishes(name, 2, func(p *registryclient.PublishRequest) { p.Source, p.Settings = []byte(newer), &s })
		if why := c.fails(name); !strings.HasPrefix(why, "node-") || !strings.Contains(why, "(line 1") {
			t.Errorf("%s: it is given up because of %s", name, why)
		}
		if r := c.is(name, "has a candidate", func(r *script.Release) bool { return r.Candidate != nil }); len(r.Candidate.Lost) > 0 {
			t.Errorf("%s: lost are %v", name, r.Candidate.Lost)
		}
		c.everywhere(name, "1")
	}
}

// anotherEndsIt: another script of the tenant ends the process that the candidate runs in, which is no fault of
// the candidate. A process that ends while no script runs may be.
func anotherEndsIt(t *testing.T) {
	t.Helper()
	c := startGated(t, 3, "")
	isolated := script.TenantSettings{Isolation: script.IsolationProcess}
	if _, _, err := c.client.SetTenant(t.Context(), "acme", &isolated, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	c.publishes("busy", 1, func(p *registryclient.PublishRequest) {
		p.Source = []byte("function handle() while true do end end")
		p.Settings = &script.Settings{Spec: script.Spec{Limits: script.Limits{Instructions: 100_000_000, Timeout: 10 * time.Second}}}
	})
	canary := c.toApproval(approved)
	c.plan("idle", 1, nil)
	c.answersOf(canary, "idle", "1") // the process has started
	before := c.processorTime(canary)
	ended, busy := make(chan error), 0
	go func() { ended <- c.call(canary, "busy") }()
	await(t, "the other script runs", func() bool {
		for pid, used := range c.processorTime(canary) {
			if was, ok := before[pid]; ok && used > was+30 {
				busy = pid
			}
		}
		return busy > 0
	})
	if err := syscall.Kill(busy, syscall.SIGKILL); err != nil { // and not the spare one that takes its place
		t.Fatal(err)
	}
	if err := <-ended; script.KindOf(err) != script.Unavailable {
		t.Fatalf("the other script ended with %v", err)
	}
	const calls = 5
	for range calls {
		c.answers(canary, "2")
	}
	await(t, "the registry knows of the calls since", func() bool {
		fleet, err := c.client.Status(t.Context(), of("route"))
		return err == nil && fleet.Scripts[0].Trials != nil && fleet.Scripts[0].Trials.Calls >= calls
	})
	c.lost()
	c.killTenants(canary)
	c.lost(canary)
}

// processorTime is what each process of the agent's tenants has used of a processor, in ticks.
func (c *canaries) processorTime(agent string) map[int]int {
	used := map[int]int{}
	for pid, fields := range c.children(agent) {
		used[pid], _ = strconv.Atoi(fields[11]) // in user mode
	}
	return used
}
