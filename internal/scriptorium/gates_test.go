package scriptorium_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/netfault"
	"github.com/scriptorium-dev/scriptorium/script"
)

// guarded is a plan of one step, with the gate of the source.
func guarded(source string) *script.Plan {
	gate := hook(source)
	if strings.HasPrefix(source, "prom-") {
		gate = script.Gate{Kind: script.Prometheus, Source: source, Query: "x", Max: script.Bound{Set: true, Value: 1}}
	}
	return &script.Plan{Steps: []script.Step{{Percent: 50, Gate: gate}}}
}

// gated is a fleet of two agents, each script of which has the gate of the source of its name. The
// scripts are in version 2, on trial.
func gated(t *testing.T, o *outside, sources ...string) *canaries {
	t.Helper()
	needs.Time(t, "starts four processes, and gates are asked each ten seconds")
	needs.NoRace(t)
	c := startGated(t, 2, o.file(sources...))
	for _, source := range sources {
		c.plan(source, 1, nil)
	}
	for _, source := range sources {
		c.plan(source, 2, guarded(source))
	}
	return c
}

// vector is the answer of a Prometheus with these values.
func vector(values ...string) string {
	var all []string
	for _, v := range values {
		all = append(all, fmt.Sprintf(`{"metric": {}, "value": [1, %q]}`, v))
	}
	return fmt.Sprintf(`{"status": "success", "data": {"resultType": "vector", "result": [%s]}}`, strings.Join(all, ","))
}

// TestAGateFailsClosed: whatever a system answers but a pass, the candidate waits, and says why; also
// while another one hangs. It goes on when the system lets it pass.
func TestAGateFailsClosed(t *testing.T) {
	t.Parallel()
	o := startOutside(t)
	text := func(answer string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) }
	}
	status := func(code int, answer string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", o.URL+"/fine")
			w.WriteHeader(code)
			fmt.Fprint(w, answer)
		}
	}
	faults := map[string]struct {
		answer http.HandlerFunc
		why    string
	}{
		"prom-none":    {text(vector()), "the query finds no data"},
		"prom-several": {text(vector("0", "0")), "the query finds 2 values, want 1: aggregate them, for example with sum()"},
		"prom-nan":     {text(vector("NaN")), "the value is NaN, want at most 1"},
		"prom-inf":     {text(vector("-Inf")), "the value is -Inf, want at most 1"},
		"prom-error":   {status(400, `{"status": "error", "errorType": "bad_data", "error": "unknown function"}`), "the query fails: bad_data: unknown function"},
		"prom-warning": {text(`{"status": "success", "warnings": ["a store is away"], "data": {"resultType": "scalar", "result": [1, "0"]}}`), "the query's result has a warning: a store is away"},
		"redirects":    {status(307, passing), "no redirect is followed"},
		"status":       {status(201, passing), "it answers with status 201 Created"},
		"denied":       {status(401, passing), "it answers with status 401 Unauthorized"},
		"long":         {text(passing + strings.Repeat(" ", 64<<10)), "its answer has more than 65536 bytes"},
		"text":         {text("pass"), "its answer is not a JSON object"},
		"both":         {text(`{"pass": true, "abort": true}`), "it says both that the step passes and that the candidate is to be aborted"},
		"hangs":        {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "it does not answer within 10s"},
		"refuses":      {text(refusal), "a build is red"},
	}
	sources := []string{"fine", "aborts"}
	for source, tt := range faults {
		o.set(source, tt.answer)
		sources = append(sources, source)
	}
	o.says("fine", passing)
	o.says("aborts", `{"abort": true, "reason": "carts are lost"}`)
	c := gated(t, o, sources...)
	c.live("fine", 2)
	if why := c.fails("aborts"); why != "gate webhook/aborts: carts are lost" {
		t.Errorf("an abort: %s", why)
	}
	for source, tt := range faults {
		c.waits(source, tt.why)
	}
	for source := range faults {
		if r := c.is(source, "is in its step", func(*script.Release) bool { return true }); r.Active.Number != 1 || r.Candidate == nil || r.Candidate.Step != 1 {
			t.Errorf("%s is v%d with the candidate %+v", source, r.Active.Number, r.Candidate)
		}
	}
	o.says("refuses", passing)
	c.live("refuses", 2) // the others are asked less often by now
}

// TestAnswersOfGatesThatComeLate: a candidate that is aborted, rolled back or replaced while the
// system is asked ends the request. A pass of an earlier attempt counts for nothing in the next, and
// the next registry asks again.
func TestAnswersOfGatesThatComeLate(t *testing.T) {
	t.Parallel()
	o := startOutside(t)
	ends := map[string]func(c *canaries, name string){
		"abort":    func(c *canaries, name string) { c.steer(name, registryclient.Abort) },
		"replace":  func(c *canaries, name string) { c.plan(name, 3, &script.Plan{}) },
		"rollback": func(c *canaries, name string) { _, _, _ = c.client.Rollback(c.t.Context(), of(name), 0, by) },
	}
	sources := []string{"again", "killed"}
	var ended atomic.Int32
	for source := range ends {
		sources = append(sources, source)
		o.set(source, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			ended.Add(1)
		})
	}
	late, answered := make(chan struct{}), make(chan struct{})
	o.set("again", func(w http.ResponseWriter, _ *http.Request) {
		o.says("again", refusal) // to the next attempt
		<-late
		fmt.Fprint(w, passing)
		close(answered)
	})
	o.set("killed", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c := gated(t, o, sources...)
	for _, source := range sources {
		o.wasAsked(source, 1)
	}
	for source, end := range ends {
		end(c, source)
	}
	await(t, "the requests end", func() bool { return ended.Load() == int32(len(ends)) })
	c.live("replace", 3)
	c.live("rollback", 1)
	if why := c.fails("abort"); why != "aborted by test" {
		t.Errorf("aborted: %s", why)
	}
	c.steer("again", registryclient.Retry)
	c.waits("again", "a build is red")
	close(late)
	<-answered
	before := len(o.questions("again"))
	o.says("killed", passing)
	c.killRegistry()
	c.live("killed", 2)
	o.wasAsked("again", before+1)
	c.waits("again", "a build is red")
	for source := range ends {
		if n := len(o.questions(source)); n != 1 {
			t.Errorf("%s was asked %d times", source, n)
		}
	}
}

// TestWhenGatesAreNotAsked: nobody is asked while the registry is frozen, or when the operator has
// removed the source. A certificate that is not trusted is no pass, and the log says where that is.
func TestWhenGatesAreNotAsked(t *testing.T) {
	t.Parallel()
	o := startOutside(t)
	o.says("frozen", refusal)
	o.says("removed", refusal)
	c := gated(t, o, "frozen", "removed")
	c.waits("frozen", "a build is red")
	c.waits("removed", "a build is red")
	c.freeze()
	c.waits("frozen", "the registry is frozen by ann")
	c.waits("removed", "the registry is frozen by ann")
	before := len(o.questions("frozen"))
	o.says("frozen", passing)
	c.killRegistry() // which asks at its start, if at all
	c.awaitAgents(2)
	c.waits("frozen", "the registry is frozen by ann")
	if n := len(o.questions("frozen")); n > before {
		t.Errorf("asked %d times while frozen", n-before)
	}
	strange := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(strange.Close)
	o.write(c.gates, "frozen")
	file, err := os.OpenFile(c.gates, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(file, "- {name: strange, webhook: %q, tenants: [acme]}\n", strange.URL); err != nil || file.Close() != nil {
		t.Fatal(err)
	}
	c.thaw()
	c.live("frozen", 2)
	c.waits("removed", "gate webhook/removed: the registry that leads has no such source for tenant acme: its operator adds it to the file of registryd --gates")
	c.plan("strange", 1, nil)
	c.plan("strange", 2, guarded("strange"))
	c.waits("strange", "gate webhook/strange: it cannot be reached: its certificate is not trusted")
	await(t, "the log says where it is", func() bool {
		return strings.Contains(c.process.output.String(), strange.URL) && strings.Contains(c.process.output.String(), "certificate signed by unknown authority")
	})
}

// TestAGateAndTwoLeaders: a leader that hung does not know that another one leads. Both ask, and the
// step is taken once.
func TestAGateAndTwoLeaders(t *testing.T) {
	t.Parallel()
	o := startOutside(t)
	release := make(chan struct{})
	o.set("ci", func(w http.ResponseWriter, _ *http.Request) {
		o.says("ci", passing)
		<-release
		fmt.Fprint(w, passing)
	})
	c := gated(t, o, "ci")
	o.wasAsked("ci", 1)
	first := c.process
	_, other := c.second()
	c.halt(first)
	o.wasAsked("ci", 2) // by the second, once the lease of the first is over
	await(t, "the second registry takes the step", func() bool {
		r, err := other.Get(t.Context(), of("ci"))
		return err == nil && r.Candidate == nil && r.Active.Number == 2
	})
	close(release)
	c.resume(first)
	c.live("ci", 2) // by the first
	if lines := c.notes("ci", "promote"); len(lines) != 1 {
		t.Errorf("the history has %q", lines)
	}
	for _, q := range o.questions("ci") {
		if q != (question{Tenant: "acme", Version: 2, Step: 1, Attempt: 1}) {
			t.Errorf("asked %+v", q)
		}
	}
}

// TestAPassThatIsOld: etcd is out of reach when the system has let the step pass, so nobody can store that. When
// etcd is back, the pass is older than 30 s, and the registry asks again. (An etcd that hangs would not do: it
// stores late what had reached it.)
func TestAPassThatIsOld(t *testing.T) {
	needs.Time(t, "waits until a pass is old")
	needs.NoRace(t)
	t.Parallel()
	o := startOutside(t)
	etcd := linked(t, newEtcdProcess(t))
	var asked time.Time
	answered := make(chan struct{})
	o.set("ci", func(w http.ResponseWriter, _ *http.Request) {
		asked = time.Now()
		o.says("ci", refusal) // from now on
		etcd.link.Set(netfault.Fault{Mode: netfault.Cut})
		fmt.Fprint(w, passing)
		close(answered)
	})
	c := startAgentsOn(startMistakenOn(t, etcd), 2, o.file("ci"))
	c.plan("ci", 1, nil)
	c.plan("ci", 2, guarded("ci"))
	<-answered
	await(t, "the registry gives its attempt to take the step up", func() bool {
		return strings.Contains(c.process.output.String(), "this replica does not lead any more")
	})
	await(t, "the pass is old", func() bool { return time.Since(asked) > 31*time.Second })
	if n := len(o.questions("ci")); n != 1 {
		t.Errorf("while etcd is away, the system was asked %d times", n)
	}
	etcd.link.Heal()
	c.waits("ci", "a build is red")
	if r := c.is("ci", "has a release", func(*script.Release) bool { return true }); r.Active.Number != 1 || r.Candidate == nil || r.Candidate.Step != 1 {
		t.Errorf("an old pass has counted: v%d with the candidate %+v", r.Active.Number, r.Candidate)
	}
	o.says("ci", passing)
	c.live("ci", 2)
}

// linkedEtcd is an etcd behind a link that a test can break.
type linkedEtcd struct {
	*etcdProcess
	link *netfault.Link
}

func linked(t *testing.T, etcd *etcdProcess) *linkedEtcd {
	t.Helper()
	link, err := netfault.Listen(t.Context(), netfault.Config{Name: "etcd", Upstreams: []string{strings.TrimPrefix(etcd.endpoint, "http://")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Close() })
	return &linkedEtcd{etcd, link}
}

// Endpoint implements etcdServer.
func (e *linkedEtcd) Endpoint() string { return "http://" + e.link.Addr() }

// TestASystemThatIsSlow: it gets four requests at a time. Other systems are asked meanwhile, and another tenant
// does not wait for all that the first one wants to know.
func TestASystemThatIsSlow(t *testing.T) {
	needs.Time(t, "starts four processes")
	needs.NoRace(t)
	t.Parallel()
	o := startOutside(t)
	o.says("fine", passing)
	var running, most atomic.Int32
	finish := make(chan struct{}) // one request
	o.set("slow", func(w http.ResponseWriter, r *http.Request) {
		n, m := running.Add(1), most.Load()
		for n > m && !most.CompareAndSwap(m, n) {
			m = most.Load()
		}
		select {
		case <-finish:
		case <-time.After(5 * time.Second): // before the registry gives the request up and has room for another one
		case <-r.Context().Done():
		}
		running.Add(-1)
		fmt.Fprint(w, refusal)
	})
	c := startGated(t, 2, o.file("slow", "fine"))
	const many = 60
	for i := range many {
		c.plan(fmt.Sprint("slow-", i), 1, nil)
		c.plan(fmt.Sprint("slow-", i), 2, guarded("slow"))
	}
	await(t, "the system has as many requests as it gets", func() bool { return running.Load() == 4 })
	c.plan("quick", 1, nil)
	c.plan("quick", 2, guarded("fine"))
	c.live("quick", 2)
	shop := script.Name{Tenant: "shop", Script: "route"}
	for version := 1; version <= 2; version++ {
		p := registryclient.PublishRequest{Name: shop, Source: []byte(returning(version)), Write: by}
		if version == 2 {
			p.Settings = &script.Settings{Rollout: *guarded("slow")}
		}
		if _, err := c.client.Publish(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the other tenant waits for its turn", func() bool {
		fleet, err := c.client.Status(t.Context(), shop)
		return err == nil && len(fleet.Scripts) == 1 && fleet.Scripts[0].Trials != nil && fleet.Scripts[0].Trials.Why == "gate webhook/slow has yet to answer"
	})
	asked, turn := len(o.questions("slow")), -1
	await(t, "the other tenant has its turn", func() bool {
		turn = slices.IndexFunc(o.questions("slow"), func(q question) bool { return q.Tenant == "shop" })
		if turn < 0 {
			select {
			case finish <- struct{}{}:
			default: // the next one has yet to come
			}
		}
		return turn >= 0
	})
	if turn > asked+4 {
		t.Errorf("the other tenant's turn comes after %d requests, want 4 at most", turn-asked)
	}
	close(finish)
	if n := most.Load(); n != 4 {
		t.Errorf("the system had %d requests at a time", n)
	}
}
