package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The scripts of the change sets, another one of their tenant, and their values.
var (
	checkout = script.Name{Tenant: "acme", Script: "checkout"}
	cart     = script.Name{Tenant: "acme", Script: "cart"}
	reader   = script.Name{Tenant: "acme", Script: "reader"}
	prices   = script.ValueKey{Tenant: "acme", Key: "prices/cart"}
	rules    = script.ValueKey{Tenant: "acme", Key: "prices/rules"}
)

// reading is a source that returns the number, and what the call reads of both values.
func reading(number int) []byte {
	return fmt.Appendf(nil, `function handle()
  return table.concat({%d, kv.get("prices/cart") or "none", #(kv.get("prices/rules") or ""), unpack(kv.keys("prices/"))}, " ")
end`, number)
}

// together publishes version `number` of both scripts, with the values.
func (s *stack) together(name string, number int, plan *script.Plan, tests []script.Test, values ...registryclient.ValueContent) (registryclient.ChangeSetResult, error) {
	req := registryclient.ChangeSetRequest{Tenant: "acme", Name: name, Plan: plan, Values: values, ChangeSetWrite: registryclient.ChangeSetWrite{Author: "ann"}}
	for _, of := range []script.Name{checkout, cart} {
		req.Scripts = append(req.Scripts, registryclient.PublishRequest{
			Name: of, Source: reading(number),
			Settings: &script.Settings{Spec: script.Spec{Tests: tests, Limits: script.Limits{Timeout: script.MaxLimits().Timeout}}},
		})
	}
	return s.registry.PublishChangeSet(s.t.Context(), req)
}

func (s *stack) mustTogether(name string, number int, plan *script.Plan, tests []script.Test, values ...registryclient.ValueContent) registryclient.ChangeSetResult {
	s.t.Helper()
	result, err := s.together(name, number, plan, tests, values...)
	if err != nil {
		s.t.Fatal(err)
	}
	return result
}

// everywhere fails the test unless all agents answer this.
func (s *stack) everywhere(what, ref, want string) {
	s.t.Helper()
	for i, client := range s.agents {
		if got := answered(s.t.Context(), client, ref); got != want {
			s.t.Errorf("%s: agent-%d answers %s with %s, want %s", what, i+1, ref, got, want)
		}
	}
}

func answered(ctx context.Context, client *agentclient.Client, ref string) (text string) {
	result, err := client.Call(ctx, ref)
	if err == nil {
		err = result.Decode(0, &text)
	}
	if err != nil {
		return err.Error()
	}
	return text
}

// setIs waits until the change set is as wanted.
func (s *stack) setIs(name string, want script.ChangeSetState) (set script.ChangeSet) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if !eventually(ctx, func() bool {
		var err error
		set, err = s.registry.ChangeSet(ctx, "acme", name)
		return err == nil && set.State == want
	}) {
		s.t.Fatalf("the change set never is %s: %+v", want, set)
	}
	return set
}

// converged waits until all agents say that they run what is active of the scripts, and returns
// their releases.
func (s *stack) converged(names ...script.Name) (releases []script.Release) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	var status registryclient.FleetStatus
	for _, of := range names {
		if !eventually(ctx, func() bool {
			now, err := s.registry.Get(ctx, of)
			if err == nil {
				status, err = s.registry.Status(ctx, of)
			}
			return err == nil && len(status.Scripts) == 1 && status.Scripts[0].Release.Revision >= now.Revision && status.Scripts[0].Converged
		}) {
			s.t.Fatalf("%s does not converge: %+v", of, status)
		}
		releases = append(releases, status.Scripts[0].Release)
	}
	return releases
}

// tried waits until the agents that are to run the candidates of both scripts do, and returns
// which these are.
func (s *stack) tried() (canaries []int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	var last registryclient.ScriptStatus
	for n, of := range []script.Name{checkout, cart} {
		if !eventually(ctx, func() bool {
			status, err := s.registry.Status(ctx, of)
			if err != nil || len(status.Scripts) != 1 {
				return false
			}
			last = status.Scripts[0]
			return last.Trials != nil && last.Trials.Running > 0 && last.Trials.Waiting == 0
		}) {
			s.t.Fatalf("the candidate of %s does not run: %+v, %+v", of, last.Release.Candidate, last.Trials)
		}
		var run []int
		for i := range agents {
			if last.Release.RunsOn(script.Agent{Name: fmt.Sprintf("agent-%d", i+1)}).Number == last.Release.Candidate.Version.Number {
				run = append(run, i)
			}
		}
		if n > 0 && !slices.Equal(run, canaries) {
			s.t.Errorf("agents %v run the candidate of %s, and %v the other", run, of, canaries)
		}
		canaries = run
	}
	return canaries
}

// TestChangeSets: scripts and values are one candidate. Its calls read staged values, and no others
// do. All of it goes live, and back, together.
func TestChangeSets(t *testing.T) {
	for isolation, settings := range map[string]script.TenantSettings{
		"in the agent":            {},
		"in a process of its own": {Isolation: script.IsolationProcess},
	} {
		t.Run(isolation, func(t *testing.T) { testChangeSets(t, settings) })
	}
}

func testChangeSets(t *testing.T, settings script.TenantSettings) {
	t.Helper()
	s, ctx := start(t), t.Context()
	if _, _, err := s.registry.SetTenant(ctx, "acme", &settings, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.registry.Publish(ctx, registryclient.PublishRequest{
		Name: reader, Source: reading(0), Write: registryclient.Write{Author: "test"},
		Settings: &script.Settings{Spec: script.Spec{Limits: script.Limits{Timeout: script.MaxLimits().Timeout}}},
	}); err != nil {
		t.Fatal(err)
	}
	price := func(content string) registryclient.ValueContent {
		return registryclient.ValueContent{Key: prices.Key, Content: []byte(content)}
	}
	large := registryclient.ValueContent{Key: rules.Key, Content: []byte(strings.Repeat("rule ", 20<<10))} // no event brings it along
	s.mustTogether("first", 1, nil, nil, price("low"))
	s.converged(checkout, cart, reader)
	const old, tried = "low 0 prices/cart", "high 102400 prices/cart prices/rules"
	s.everywhere("the first", checkout.String(), "1 "+old)

	s.mustTogether("second", 2, &script.Plan{Steps: []script.Step{{Percent: 34, Pause: time.Hour}}}, nil, price("high"), large)
	canaries := s.tried()
	if len(canaries) == 0 || len(canaries) == agents {
		t.Fatalf("agents %v run the candidates", canaries)
	}
	for _, of := range []script.Name{checkout, cart} {
		for i, client := range s.agents {
			want := "1 " + old
			if slices.Contains(canaries, i) {
				want = "2 " + tried
			}
			if got := answered(ctx, client, of.String()); got != want {
				t.Errorf("on trial: agent-%d answers %s with %s, want %s", i+1, of, got, want)
			}
		}
		s.everywhere("on trial", of.String()+"@1", "1 "+old)
		s.everywhere("on trial", of.String()+"@2", "2 "+tried)
	}
	s.everywhere("on trial", reader.String(), "0 "+old)
	if _, _, err := s.registry.Value(ctx, rules); script.KindOf(err) != script.NotFound {
		t.Errorf("a staged value is there: %v", err)
	}

	if _, _, err := s.registry.Steer(ctx, cart, registryclient.Promote, 0, registryclient.Write{Author: "ann"}); err != nil {
		t.Fatal(err)
	}
	set := s.setIs("second", script.ChangeSetLive)
	s.atOneRevision(set.Revision)
	for _, of := range []script.Name{checkout, cart} {
		s.everywhere("live", of.String(), "2 "+tried)
		s.everywhere("live", of.String()+"@1", "1 "+tried) // it reads what is live
	}
	s.everywhere("live", reader.String(), "0 "+tried)

	if _, err := s.registry.RollbackChangeSet(ctx, "acme", "second", registryclient.ChangeSetWrite{Author: "bob", Note: "too high"}); err != nil {
		t.Fatal(err)
	}
	set = s.setIs("second", script.ChangeSetRolledBack)
	for _, r := range s.converged(checkout, cart) {
		if r.Hold == nil || r.Active.Number != 1 || r.Revision != set.Revision {
			t.Errorf("rolled back: %s at revision %d runs version %d, held %v", r.Name, r.Revision, r.Active.Number, r.Hold)
		}
		s.everywhere("rolled back", r.Name.String(), "1 "+old)
		s.everywhere("rolled back", r.Name.String()+"@2", "2 "+old)
	}
	s.everywhere("rolled back", reader.String(), "0 "+old)
	if _, err := s.together("held", 3, nil, nil); script.KindOf(err) != script.Denied || script.AsError(err).Field != script.FieldHold {
		t.Errorf("a change set of scripts that are held: %v", err)
	}
	for _, of := range []script.Name{checkout, cart} {
		if _, _, err := s.registry.LiftHold(ctx, of, registryclient.Write{Author: "bob"}); err != nil {
			t.Fatal(err)
		}
	}
	s.converged(checkout, cart)
	s.everywhere("released", checkout.String(), "2 "+old)

	s.testWithValues(price)
	s.changeOften(price)
}

// atOneRevision fails the test unless both scripts, and the value, are of one revision, and converge.
func (s *stack) atOneRevision(revision script.Revision) {
	s.t.Helper()
	for _, r := range s.converged(checkout, cart) {
		if r.Revision != revision {
			s.t.Errorf("%s has revision %d, and the change set %d", r.Name, r.Revision, revision)
		}
	}
	if v, _, err := s.registry.Value(s.t.Context(), prices); err != nil || v.Revision != revision {
		s.t.Errorf("the value has revision %d, and the change set %d: %v", v.Revision, revision, err)
	}
}

// testWithValues publishes a version whose test passes with a staged value alone.
func (s *stack) testWithValues(price func(string) registryclient.ValueContent) {
	s.t.Helper()
	tests := []script.Test{{Name: "the price", Expect: json.RawMessage(`"3 tested 0 prices/cart"`)}}
	s.mustTogether("untested", 3, nil, tests)
	set := s.setIs("untested", script.ChangeSetFailed)
	if !strings.Contains(set.Reason, "the price") {
		s.t.Errorf("it was given up because of %q", set.Reason)
	}
	for _, r := range s.releases(checkout, cart) {
		if r.Active.Number != 2 || r.Candidate == nil || r.Candidate.Failed == "" {
			s.t.Errorf("%s runs version %d, with the candidate %+v", r.Name, r.Active.Number, r.Candidate)
		}
	}
	s.mustTogether("tested", 3, nil, tests, price("tested"))
	s.atOneRevision(s.setIs("tested", script.ChangeSetLive).Revision)
	s.everywhere("tested", checkout.String(), "3 tested 0 prices/cart")
	s.everywhere("tested", cart.String(), "3 tested 0 prices/cart")
	s.everywhere("tested", reader.String(), "0 tested 0 prices/cart")
}

// releases returns the releases.
func (s *stack) releases(names ...script.Name) (found []script.Release) {
	s.t.Helper()
	for _, of := range names {
		r, err := s.registry.Get(s.t.Context(), of)
		if err != nil {
			s.t.Fatal(err)
		}
		found = append(found, r)
	}
	return found
}

// changeOften publishes change sets that are live at once, while callers call one script after the
// other: who has met a new one does not meet an old one, or an old value, after that.
func (s *stack) changeOften(price func(string) registryclient.ValueContent) {
	s.t.Helper()
	rounds := 20
	if testing.Short() {
		rounds = 5
	}
	s.mustTogether("set-9", 9, nil, nil, price("p9"))
	s.converged(checkout, cart)
	stop := make(chan struct{})
	var calling sync.WaitGroup
	for i, client := range s.agents {
		for j := range 2 {
			calling.Go(func() {
				order, highest := []script.Name{checkout, cart}, 0
				for n := j; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					text := answered(s.t.Context(), client, order[n%2].String())
					var number, value int
					if _, err := fmt.Sscanf(text, "%d p%d", &number, &value); err != nil {
						s.t.Errorf("agent-%d: %s: %v", i+1, text, err)
						return
					}
					if number < highest || value < number {
						s.t.Errorf("agent-%d answers %s with %s after edition %d", i+1, order[n%2], text, highest)
						return
					}
					highest = number
				}
			})
		}
	}
	for n := range rounds {
		number := 10 + n
		result := s.mustTogether(fmt.Sprintf("set-%d", number), number, nil, nil, price(fmt.Sprintf("p%d", number)))
		if result.Set.State != script.ChangeSetLive {
			s.t.Errorf("the change set is %s", result.Set.State)
		}
		s.atOneRevision(result.Set.Revision)
	}
	close(stop)
	calling.Wait()
}
