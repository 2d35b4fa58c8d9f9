package execute_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

// sideEffects is a host that notes what calls change.
type sideEffects struct {
	mu       sync.Mutex
	counters map[string]float64
	logs     []string
}

func (h *sideEffects) Log(inv *engine.Invocation, _ engine.Level, message string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.logs = append(h.logs, fmt.Sprintf("%s@%d %s", inv.Tenant, inv.Version, message))
}

func (*sideEffects) Value(tenant, key string) ([]byte, bool, error) {
	return []byte(tenant + "/" + key), true, nil
}

func (*sideEffects) Keys(tenant, _, _ string, _ int) []string { return []string{tenant} }

func (h *sideEffects) Count(tenant, counter string, n float64) (float64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.counters == nil {
		h.counters = map[string]float64{}
	}
	h.counters[tenant+" "+counter] += n
	return h.counters[tenant+" "+counter], nil
}

func (h *sideEffects) Take(tenant, bucket string, n, _, _ float64) (bool, time.Duration) {
	_, _ = h.Count(tenant, "bucket "+bucket, n)
	return true, 0
}

// shadowing returns a node on which the candidate shadows all calls of the active version.
func shadowing(t *testing.T, host engine.Host, active, candidate string, plan script.Plan) (*node, *cache.Release) {
	t.Helper()
	n := &node{host: host}
	n.start(t, lua.New(), 1<<20, 2, 16)
	return n, n.shadow("acme", active, candidate, plan, nil)
}

// shadow makes a script of the tenant live whose candidate shadows all calls of the active version.
func (n *node) shadow(tenant, active, candidate string, plan script.Plan, change func(*script.Release)) *cache.Release {
	r := script.Release{Name: script.Name{Tenant: tenant, Script: "route"}, Revision: 1, Enabled: true}
	for i, src := range []string{active, candidate} {
		n.sources[script.DigestOf([]byte(src))] = []byte(src)
		r.Retained = append(r.Retained, script.Version{Number: uint64(i + 1), Digest: script.DigestOf([]byte(src)), Engine: "fake", Entrypoint: "handle"})
	}
	r.Active = r.Retained[0]
	r.Settings.Decisions = &script.Decisions{Mask: []string{"card"}}
	patiently(&r)
	r.Candidate = &script.Candidate{Version: r.Retained[1], Spec: r.Settings.Spec, Attempt: 1, Step: 1}
	plan.Steps = []script.Step{{By: script.ByShadow, Percent: 100}}
	r.Settings.Rollout = plan
	r.Candidate.Select(plan.Steps[0], script.ShadowThreshold(100))
	if change != nil {
		change(&r)
	}
	live := cache.NewReleaseOn(script.Agent{Name: "n"}, r)
	n.table.Update([]*cache.Release{live}, nil)
	return live
}

// shadowed waits until so many calls were shadowed or dropped.
func shadowed(t *testing.T, live *cache.Release, calls uint64) script.ShadowCalls {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if found := live.Shadow.Read(); found != nil && found.Compared()+found.Dropped >= calls {
			return *found
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("shadows: %+v", live.Shadow.Read())
		}
	}
}

func TestShadowOutcomes(t *testing.T) {
	const active = `function handle(r)
		if r.fail then error("no " .. r.fail) end
		return {user = r.user, n = 1, time = os.time(), random = math.random()}
	end`
	change := func(from, to string) string { return strings.Replace(active, from, to, 1) }
	for name, c := range map[string]struct {
		candidate, input string
		want             script.ShadowCalls
		paths            string
	}{
		"the same":                {candidate: active + " -- again", want: script.ShadowCalls{Equal: 1}},
		"another number":          {candidate: change("n = 1", "n = 2"), want: script.ShadowCalls{Different: 1}, paths: "map[/n:1]"},
		"another member":          {candidate: change("n = 1", "m = 1"), want: script.ShadowCalls{Different: 1}, paths: "map[/m:1 /n:1]"},
		"it fails":                {candidate: `function handle() error("x") end`, want: script.ShadowCalls{Failed: 1}, paths: "map[:1]"},
		"both fail":               {candidate: change(`"no "`, `"none "`), input: `{"fail":"a"}`, want: script.ShadowCalls{Equal: 1}},
		"the active one fails":    {candidate: `function handle() return 1 end`, input: `{"fail":"a"}`, want: script.ShadowCalls{Different: 1}, paths: "map[:1]"},
		"it does not compile":     {candidate: `function handle( return 1 end`, want: script.ShadowCalls{Dropped: 1}},
		"it runs for ever":        {candidate: `function handle() while true do end end`, want: script.ShadowCalls{Failed: 1}, paths: "map[:1]"},
		"it allocates for ever":   {candidate: `function handle() local t = {} while true do t[#t+1] = ("x"):rep(1e5) .. #t end end`, want: script.ShadowCalls{Failed: 1}, paths: "map[:1]"},
		"it ends with a deep one": {candidate: `function handle() local t = {} for i = 1, 10000 do t = {t} end return t end`, want: script.ShadowCalls{Failed: 1}, paths: "map[:1]"},
	} {
		t.Run(name, func(t *testing.T) {
			n, live := shadowing(t, &sideEffects{}, active, c.candidate, script.Plan{})
			if c.input == "" {
				c.input = `{"user":"ada"}`
			}
			var reply gateway.Reply
			_ = n.Execute(t.Context(), &gateway.Call{Script: "acme/route", Args: [][]byte{[]byte(c.input)}}, &reply)
			if reply.Version != 1 {
				t.Errorf("version %d answers", reply.Version)
			}
			found := shadowed(t, live, 1)
			found.Step, found.Slower = 0, 0
			if paths := live.Shadow.Findings().Paths; found != c.want || c.paths != "" && fmt.Sprint(paths) != c.paths {
				t.Errorf("found %+v at %v, want %+v at %v", found, paths, c.want, c.paths)
			}
			if samples := live.Shadow.Findings().Samples; name == "it fails" && (len(samples) != 1 || samples[0].Shadow != `{"error":"SCRIPT","message":"x","line":1}`) {
				t.Errorf("the error is not in the sample with its line: %+v", samples)
			}
			if calls, failed := live.Split.Calls.Read(); calls != c.want.Compared() || failed > calls {
				t.Errorf("%d calls of the candidate, and %d failed", calls, failed)
			}
		})
	}
}

// TestShadowHasNoSideEffects: what the candidate counts, takes and logs stays in its shadow, and it reads
// the tenant's values.
func TestShadowHasNoSideEffects(t *testing.T) {
	const active = `function handle() return {n = counter.add("n", 1), v = kv.get("a")} end`
	const candidate = `function handle()
		log.info("from the shadow")
		local ok = ratelimit.allow("b", {rate = 1, burst = 1})
		return {n = counter.add("n", 1), v = kv.get("a"), ok = ok}
	end`
	host := &sideEffects{}
	n, live := shadowing(t, host, active, candidate, script.Plan{})
	for i := 1; i <= 3; i++ {
		var reply gateway.Reply
		if err := n.Execute(t.Context(), &gateway.Call{Script: "acme/route", Args: [][]byte{[]byte(`{}`)}}, &reply); err != nil {
			t.Fatal(err)
		}
		if got, want := string(reply.Value(0)), fmt.Sprintf(`{"n":%d,"v":"acme/a"}`, i); got != want {
			t.Errorf("call %d answers %s, want %s", i, got, want)
		}
		shadowed(t, live, uint64(i))
	}
	host.mu.Lock()
	defer host.mu.Unlock()
	if got := fmt.Sprint(host.counters, host.logs); got != "map[acme n:3] []" {
		t.Errorf("calls changed %s", got)
	}
	samples := live.Shadow.Findings().Samples
	if len(samples) == 0 || fmt.Sprint(samples[0].Logs) != "[info from the shadow]" || !strings.Contains(samples[0].Shadow, `"v":"acme/a"`) {
		t.Errorf("samples: %+v", samples)
	}
}

// TestShadowSamplesAreMasked: masked values and credentials are in no sample, nor are copies of them.
func TestShadowSamplesAreMasked(t *testing.T) {
	n, live := shadowing(t, &sideEffects{}, `function handle(r) return {echo = r.card, k = 1} end`,
		`function handle(r) log.info("card " .. r.card) return {echo = "<" .. r.headers.authorization .. ">", [r.card] = 2} end`, script.Plan{})
	input := `{"card":"4111-1111-1111","user":"ada","headers":{"authorization":"Bearer sesame-0815","cookie":"sid=abcdef123"}}`
	var reply gateway.Reply
	if err := n.Execute(t.Context(), &gateway.Call{Script: "acme/route", Args: [][]byte{[]byte(input)}}, &reply); err != nil {
		t.Fatal(err)
	}
	shadowed(t, live, 1)
	found := live.Shadow.Findings()
	if len(found.Samples) != 1 || !strings.Contains(found.Samples[0].Input, "ada") {
		t.Fatalf("samples: %+v", found.Samples)
	}
	for _, secret := range []string{"4111", "sesame", "abcdef"} {
		if text := fmt.Sprintf("%+v", found); strings.Contains(text, secret) {
			t.Errorf("%s is in %s", secret, text)
		}
	}
}

// TestShadowConditions: what depends on the moment of the live call is no difference: the time, random
// numbers, counters and buckets.
func TestShadowConditions(t *testing.T) {
	const active = `function handle()
		return {counter.add("n", 1), ratelimit.allow("b", {rate = 1, burst = 1}), os.time(), math.random(), (crypto.uuid())}
	end`
	for name, c := range map[string]struct {
		candidate string
		plan      script.Plan
		want      script.ShadowCalls
	}{
		"the same":              {active + " --", script.Plan{}, script.ShadowCalls{Equal: 5}},
		"the same, and latency": {active + " --", script.Plan{MaxLatencyIncrease: script.LatencyIncrease{P99: 20}}, script.ShadowCalls{Equal: 5}},
		"another":               {strings.Replace(active, `add("n", 1)`, `add("n", 2)`, 1), script.Plan{}, script.ShadowCalls{Different: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			host := &sideEffects{counters: map[string]float64{"acme n": 41}}
			n, live := shadowing(t, host, active, c.candidate, c.plan)
			for i := range uint64(5) {
				var reply gateway.Reply
				if err := n.Execute(t.Context(), &gateway.Call{Script: "acme/route"}, &reply); err != nil {
					t.Fatal(err)
				}
				shadowed(t, live, i+1)
			}
			found := shadowed(t, live, 5)
			if found.Step, found.Slower = 0, 0; found != c.want {
				t.Errorf("found %+v, want %+v: %+v", found, c.want, live.Shadow.Findings())
			}
			if c.plan.IsZero() {
				return
			}
			for what, counts := range map[string]*cache.StepCounts{"candidate": live.Split.StepCalls, "active version": live.Besides()} {
				if calls := counts.Read(); calls == nil || calls.Calls() != 5 {
					t.Errorf("calls of the %s: %+v", what, calls)
				}
			}
		})
	}
}

// TestCallsWithoutShadow: calls of a version by its number, tests, and calls that fail for a reason that
// is not the script's have none.
func TestCallsWithoutShadow(t *testing.T) {
	n, live := shadowing(t, &sideEffects{}, `function handle() return 1 end`, `function handle() return 2 end`, script.Plan{})
	var reply gateway.Reply
	for _, call := range []*gateway.Call{{Script: "acme/route@1"}, {Script: "acme/route@2"}, {Script: "acme/route", Args: [][]byte{[]byte("{")}}} {
		reply.Reset()
		_ = n.Execute(t.Context(), call, &reply)
	}
	_ = n.Trials().Execute(t.Context(), &gateway.Call{Script: "acme/route"}, &reply)
	large := []byte(`"` + strings.Repeat("x", 64<<10) + `"`)
	reply.Reset()
	_ = n.Execute(t.Context(), &gateway.Call{Script: "acme/route", Args: [][]byte{large}}, &reply)
	if found := shadowed(t, live, 1); found.Dropped != 1 || found.Compared() != 0 {
		t.Errorf("found %+v, want the large call dropped", found)
	}
}
