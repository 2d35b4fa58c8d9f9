package scriptorium_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The parts of the change sets. Edition n of all of them is version n of the scripts, which return n
// and the content of the value, and the content n of the value.
var (
	checkout = script.Name{Tenant: "acme", Script: "checkout"}
	cart     = script.Name{Tenant: "acme", Script: "cart"}
	number   = script.ValueKey{Tenant: "acme", Key: "number"}
)

// step is one of a plan, which ends by itself.
func percent(n int) script.Step { return script.Step{Percent: n} }

// together publishes edition n; with a test if there are steps.
func together(ctx context.Context, client *registryclient.Client, n int, steps ...script.Step) error {
	req := registryclient.ChangeSetRequest{
		Tenant: "acme", Name: fmt.Sprint("edition-", n), Plan: &script.Plan{Steps: steps},
		Values:         []registryclient.ValueContent{{Key: number.Key, Content: fmt.Append(nil, n)}},
		ChangeSetWrite: registryclient.ChangeSetWrite{Author: "ann"},
	}
	var spec script.Spec
	if len(steps) > 0 {
		spec.Tests = []script.Test{{Name: "the number", Expect: fmt.Appendf(nil, `"%d %d"`, n, n)}}
	}
	for _, name := range []script.Name{checkout, cart} {
		req.Scripts = append(req.Scripts, registryclient.PublishRequest{
			Name: name, Source: fmt.Appendf(nil, "function handle() return '%d ' .. kv.get('number') end -- %s", n, name),
			Settings: &script.Settings{Spec: spec},
		})
	}
	_, err := client.PublishChangeSet(ctx, req)
	return err
}

func (c *canaries) mustTogether(n int, steps ...script.Step) {
	c.t.Helper()
	if err := together(c.t.Context(), c.client, n, steps...); err != nil {
		c.t.Fatal(err)
	}
}

// observation is what a client finds of the change sets.
type observation struct {
	live  uint64 // 0: nothing is
	trial uint64 // that is on trial; 0 if none is
	given bool   // it was given up
	step  int
}

// observed returns what a new client finds, all of it of one moment. It is an error if it is not whole.
func observed(ctx context.Context, address string) (observation, error) {
	client, err := registryclient.Dial(address)
	if err != nil {
		return observation{}, err
	}
	defer client.Close()
	for {
		before, err := client.Get(ctx, checkout)
		if script.KindOf(err) == script.NotFound {
			return observation{}, nil
		} else if err != nil {
			return observation{}, err
		}
		other, cartErr := client.Get(ctx, cart)
		_, content, valueErr := client.Value(ctx, number)
		after, err := client.Get(ctx, checkout)
		if err != nil || script.KindOf(cartErr) == script.Unavailable || script.KindOf(valueErr) == script.Unavailable {
			return observation{}, errors.Join(err, cartErr, valueErr)
		}
		if after.Revision != before.Revision {
			continue
		}
		if err := errors.Join(cartErr, valueErr); err != nil {
			return observation{}, notWhole{fmt.Sprintf("checkout is there, but %v", err)}
		}
		e, o := editionOf(&before), editionOf(&other)
		if e != o || fmt.Sprint(e.live) != string(content) {
			return e, notWhole{fmt.Sprintf("checkout is %+v, cart %+v, and the value %s", e, o, content)}
		}
		return e, nil
	}
}

// notWhole is a fault that was observed.
type notWhole struct{ text string }

func (e notWhole) Error() string { return "half a change set: " + e.text }

func editionOf(r *script.Release) observation {
	e := observation{live: r.Active.Number}
	if c := r.Candidate; c != nil {
		e.trial, e.given, e.step = c.Version.Number, c.Failed != "", c.Step
	}
	return e
}

// becomes waits until an observation is as wanted.
func (c *canaries) becomes(what string, is func(observation) bool) (e observation) {
	c.t.Helper()
	var err error
	defer func() {
		if c.t.Failed() {
			c.t.Logf("the last observation is %+v, %v", e, err)
		}
	}()
	await(c.t, what, func() bool {
		e, err = observed(c.t.Context(), c.registry)
		if half := (notWhole{}); errors.As(err, &half) {
			c.t.Fatal(err)
		}
		return err == nil && is(e)
	})
	return e
}

func (c *canaries) liveEdition(n int) {
	c.t.Helper()
	c.becomes(fmt.Sprintf("edition %d is live", n), func(e observation) bool { return e.live == uint64(n) && e.trial == 0 }) //nolint:gosec // it is small
}

// watch calls the scripts on all agents, one after the other, and observes the registries at the
// addresses, until the returned function is called: nobody ever meets half of an edition.
func (c *canaries) watch(addresses ...string) (stop func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var watching sync.WaitGroup
	stop = func() { cancel(); watching.Wait() }
	c.t.Cleanup(stop)
	for _, address := range addresses {
		watching.Go(func() {
			for ctx.Err() == nil {
				bounded, done := context.WithTimeout(ctx, time.Second)
				_, err := observed(bounded, address)
				done()
				if half := (notWhole{}); errors.As(err, &half) {
					c.t.Error(err)
					return
				}
			}
		})
	}
	for name := range c.agents {
		caller, err := agentclient.New("unix:" + filepath.Join(c.dir, name, "grpc.sock"))
		if err != nil {
			c.t.Fatal(err)
		}
		watching.Go(func() {
			defer func() { _ = caller.Close() }()
			tick := time.NewTicker(2 * time.Millisecond)
			defer tick.Stop()
			highest := 0
			for n := 0; ctx.Err() == nil; n++ {
				result, err := caller.Call(ctx, []script.Name{checkout, cart}[n%2].String())
				if err != nil { // it is not there yet, or the machine is busy
					continue
				}
				var text string
				var edition, value int
				if err := result.Decode(0, &text); err != nil {
					c.t.Error(err)
				}
				_, _ = fmt.Sscan(text, &edition, &value)
				if edition < highest || value < edition {
					c.t.Errorf("%s answers %q after edition %d", name, text, highest)
					return
				}
				highest = edition
				<-tick.C
			}
		})
	}
	return stop
}

// endRegistry ends the registry's process at once.
func (c *canaries) endRegistry() {
	_ = c.process.cmd.Process.Kill()
	_ = c.process.cmd.Wait()
}

// TestACanarySetThatEnds: an agent that ends while it runs the candidates of a change set has all of
// them given up, and the value is what it was.
func TestACanarySetThatEnds(t *testing.T) {
	needs.NoRace(t)
	t.Parallel()
	c := startCanaries(t)
	c.mustTogether(1)
	c.liveEdition(1)
	step := script.Step{Percent: 30, Pause: time.Hour}
	c.mustTogether(2, step, percent(60))
	var canary string
	for _, name := range []script.Name{checkout, cart} {
		await(t, "the canary runs "+name.String(), func() bool {
			r, err := c.client.Get(t.Context(), name)
			for agent := range c.agents {
				if err == nil && r.Candidate != nil && r.RunsOn(script.Agent{Name: agent}).Number == 2 {
					canary = agent
				}
			}
			return err == nil && r.Candidate != nil && !r.Candidate.Running.IsZero()
		})
	}
	c.kill(canary)
	c.startNamed(canary)
	e := c.becomes("it is given up", func(e observation) bool { return e.given })
	if e != (observation{live: 1, trial: 2, given: true, step: 1}) {
		t.Errorf("it is %+v", e)
	}
	set, err := c.client.ChangeSet(t.Context(), "acme", "edition-2")
	if err != nil || set.State != script.ChangeSetFailed || !strings.Contains(set.Reason, canary+": ended") {
		t.Errorf("the change set is %+v, %v", set, err)
	}
	for agent := range c.agents {
		for _, name := range []script.Name{checkout, cart} {
			c.answersTo(agent, name, "1 1")
		}
	}
}

// answersTo waits until a call on the agent returns the text.
func (c *canaries) answersTo(agent string, name script.Name, want string) {
	c.t.Helper()
	caller, err := agentclient.New("unix:" + filepath.Join(c.dir, agent, "grpc.sock"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = caller.Close() }()
	await(c.t, fmt.Sprintf("%s answers %s with %s", agent, name, want), func() bool {
		result, err := caller.Call(c.t.Context(), name.String())
		var text string
		return err == nil && result.Decode(0, &text) == nil && text == want
	})
}

// TestACanarySetAndAKilledRegistry: the registry is killed in each state of a change set. All of it is
// live then, or nothing, and it goes on once the registry is back.
func TestACanarySetAndAKilledRegistry(t *testing.T) {
	needs.NoRace(t)
	t.Parallel()
	c := startCanaries(t)
	c.mustTogether(1)
	c.liveEdition(1)
	defer c.watch(c.registry)()
	plan := []script.Step{percent(30), percent(60)}
	waits := []script.Step{{Percent: 30, Pause: time.Hour}}
	inStep := func(k int) func(observation) bool {
		return func(e observation) bool { return e.step >= k || e.trial == 0 && e.live > 1 }
	}
	killAmid := func(do func()) {
		done := make(chan struct{})
		go func() { defer close(done); do() }()
		for range rand.N(10) { // about as long as it takes
			_, _ = c.client.Get(t.Context(), checkout)
		}
		c.endRegistry()
		<-done
	}
	published := func(n int) {
		killAmid(func() { _ = together(t.Context(), c.client, n, plan...) })
	}
	atOnce := func(n int) {
		killAmid(func() { _ = together(t.Context(), c.client, n) })
	}
	tested := func(n int) {
		c.mustTogether(n, plan...)
		c.endRegistry()
	}
	step := func(k int) func(n int) {
		return func(n int) {
			c.mustTogether(n, plan...)
			c.becomes(fmt.Sprint("it is in step ", k), inStep(k))
			c.endRegistry()
		}
	}
	byHand := false // it waits for an hour otherwise
	promoted := func(n int) {
		byHand = true
		c.mustTogether(n, waits...)
		c.becomes("it is in its step", inStep(1))
		killAmid(func() {
			_, _, _ = c.client.Steer(t.Context(), cart, registryclient.Promote, 0, registryclient.Write{Author: "ann"})
		})
	}
	kills := []func(n int){promoted, atOnce, published, tested, step(1), step(2), promoted, atOnce, promoted}
	if testing.Short() {
		kills = kills[:2]
	}
	for i, kill := range kills {
		n := i + 2
		byHand = false
		kill(n)
		c.restartRegistry()
		e := c.becomes("the registry is back", func(observation) bool { return true })
		t.Logf("after kill %d, the editions are %+v", i, e)
		if e.trial == 0 && e.live < uint64(n) { //nolint:gosec // it is small
			c.mustTogether(n, plan...)
		}
		if byHand && e.trial > 0 {
			_, _, err := c.client.Steer(t.Context(), checkout, registryclient.Promote, 0, registryclient.Write{Author: "ann"})
			if kind := script.KindOf(err); err != nil && kind != script.NotFound && kind != script.Conflict && kind != script.Invalid {
				t.Fatal(err)
			}
		}
		c.liveEdition(n)
		if set, err := c.client.ChangeSet(t.Context(), "acme", fmt.Sprint("edition-", n)); err != nil || set.State != script.ChangeSetLive {
			t.Errorf("after kill %d, the change set is %+v, %v", i, set, err)
		}
	}
}
