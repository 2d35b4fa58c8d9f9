package scriptorium_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// by is who writes.
var by = registryclient.Write{Author: "test"}

// of is a script of acme.
func of(name string) script.Name { return script.Name{Tenant: "acme", Script: name} }

// returning is the source of a script that returns the number.
func returning(version int) string { return fmt.Sprintf("function handle() return %d end", version) }

// plan publishes a version of a script by the plan and with the tests, and returns the warnings.
func (c *canaries) plan(name string, version int, plan *script.Plan, tests ...script.Test) []string {
	c.t.Helper()
	p := registryclient.PublishRequest{Name: of(name), Source: []byte(returning(version)), Write: by}
	if plan != nil {
		p.Settings = &script.Settings{Spec: script.Spec{Tests: tests}, Rollout: *plan}
	}
	published, err := c.client.Publish(c.t.Context(), p)
	if err != nil {
		c.t.Fatalf("publish %s: %v", name, err)
	}
	return published.Warnings
}

// steer has a person change the way of the script's candidate.
func (c *canaries) steer(name string, s registryclient.Steering) {
	c.t.Helper()
	if _, _, err := c.client.Steer(c.t.Context(), of(name), s, 0, by); err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
}

// is waits until the script's release is so, and returns it.
func (c *canaries) is(name, what string, so func(*script.Release) bool) (r script.Release) {
	c.t.Helper()
	last, is := "", false
	defer func() {
		if !is {
			c.t.Logf("%s was last %s", name, last)
		}
	}()
	await(c.t, name+" "+what, func() bool {
		var err error
		r, err = c.client.Get(c.t.Context(), of(name))
		last = fmt.Sprintf("v%d with the candidate %+v, %v", r.Active.Number, r.Candidate, err)
		is = err == nil && so(&r)
		return is
	})
	return r
}

// live waits until the version is live everywhere by the registry.
func (c *canaries) live(name string, version uint64) {
	c.t.Helper()
	c.is(name, fmt.Sprintf("is live in version %d", version), func(r *script.Release) bool { return r.Active.Number == version && r.Candidate == nil })
}

// fails waits until the script's candidate is given up, and returns why.
func (c *canaries) fails(name string) string {
	c.t.Helper()
	r := c.is(name, "has a candidate that was given up", func(r *script.Release) bool { return r.Candidate == nil || r.Candidate.Failed != "" })
	if r.Candidate == nil {
		c.t.Fatalf("%s v%d is live, want its candidate given up", name, r.Active.Number)
	}
	return r.Candidate.Failed
}

// waits waits until the script's rollout waits for this, or for something that begins or ends so.
func (c *canaries) waits(name, want string) {
	c.t.Helper()
	last, is := "", false
	defer func() {
		if !is {
			c.t.Logf("%s waited last: %s", name, last)
		}
	}()
	await(c.t, name+" waits: "+want, func() bool {
		fleet, err := c.client.Status(c.t.Context(), of(name))
		if err != nil || len(fleet.Scripts) != 1 || fleet.Scripts[0].Trials == nil {
			last = fmt.Sprintf("%v %+v", err, fleet.Scripts)
			return false
		}
		last = fleet.Scripts[0].Trials.Why
		is = strings.HasPrefix(last, want) || strings.HasSuffix(last, want)
		return is
	})
}

// notes returns the lines of the script's history that have the text.
func (c *canaries) notes(name, text string) (lines []string) {
	c.t.Helper()
	history, err := c.client.History(c.t.Context(), of(name))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, e := range history {
		if line := fmt.Sprintf("%s %d/%d %s", e.Change, e.Version, e.Candidate, e.Note); strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// freeze freezes the registry.
func (c *canaries) freeze(except ...string) {
	c.t.Helper()
	if _, err := c.client.Freeze(c.t.Context(), 0, except, "ann", "incident 12"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *canaries) thaw() {
	c.t.Helper()
	if changed, err := c.client.Thaw(c.t.Context(), "ann", ""); err != nil || !changed {
		c.t.Fatalf("thawed %v, %v", changed, err)
	}
}

// canary is the agent that runs candidates of the script first.
func (c *canaries) canary(name string) (canary string) {
	for agent := range c.agents {
		if canary == "" || script.Bucket(agent, of(name)) < script.Bucket(canary, of(name)) {
			canary = agent
		}
	}
	return canary
}

// others are all agents but the one, in order.
func (c *canaries) others(one string) (others []string) {
	for agent := range c.agents {
		if agent != one {
			others = append(others, agent)
		}
	}
	slices.Sort(others)
	return others
}

// halt stops a process as it is, until resume.
func (c *canaries) halt(d *daemon) {
	c.t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		c.t.Fatal(err)
	}
}

func (c *canaries) resume(d *daemon) {
	c.t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		c.t.Fatal(err)
	}
}

// killRegistry ends the registry's process at once, and starts another.
func (c *canaries) killRegistry() {
	c.t.Helper()
	c.endRegistry()
	c.startRegistry("--gates", c.gates)
	c.awaitPage(c.admin, http.StatusOK, `"ready":true`)
}

// outside are systems that gates ask, in this process: each source is a path.
type outside struct {
	*httptest.Server
	t        *testing.T
	mu       sync.Mutex
	handlers map[string]http.HandlerFunc
	asked    map[string][]question
}

// question is what a webhook gets.
type question struct {
	Tenant                 string
	Version, Step, Attempt int
}

func startOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{t: t, handlers: map[string]http.HandlerFunc{}, asked: map[string][]question{}}
	o.Server = httptest.NewServer(o)
	t.Cleanup(o.Close)
	return o
}

func (o *outside) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	source, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	var q question
	_ = json.NewDecoder(r.Body).Decode(&q) // that of a Prometheus is a form
	o.mu.Lock()
	o.asked[source] = append(o.asked[source], q)
	handler := o.handlers[source]
	o.mu.Unlock()
	handler(w, r)
}

// says has the source answer so from now on.
func (o *outside) says(source, answer string) {
	o.set(source, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) })
}

func (o *outside) set(source string, handler http.HandlerFunc) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.handlers[source] = handler
}

// questions returns what the source was asked.
func (o *outside) questions(source string) []question {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.asked[source])
}

// wasAsked waits until the source was asked so often.
func (o *outside) wasAsked(source string, times int) {
	o.t.Helper()
	await(o.t, fmt.Sprint(source, " is asked ", times), func() bool { return len(o.questions(source)) >= times })
}

const (
	passing = `{"pass": true, "reason": "all is well"}`
	refusal = `{"pass": false, "reason": "a build is red"}`
)

// file returns a file of gates with these sources, which are webhooks, or of a Prometheus if their
// names begin so.
func (o *outside) file(sources ...string) string {
	o.t.Helper()
	path := filepath.Join(o.t.TempDir(), "gates.yaml")
	o.write(path, sources...)
	return path
}

func (o *outside) write(path string, sources ...string) {
	o.t.Helper()
	text := "sources:\n"
	for _, source := range sources {
		kind := "webhook"
		if strings.HasPrefix(source, "prom-") {
			kind = "prometheus"
		}
		text += fmt.Sprintf("- {name: %s, %s: %q, insecurePlaintext: true, tenants: [acme, shop]}\n", source, kind, o.URL+"/"+source)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
}

// hook is the gate that asks the source.
func hook(source string) script.Gate { return script.Gate{Kind: script.Webhook, Source: source} }

// second starts another registry of the fleet, and returns a client of it.
func (c *canaries) second() (*daemon, *registryclient.Client) {
	c.t.Helper()
	other := *c.mistaken
	other.registry, other.admin = porttest.Address(c.t), porttest.Address(c.t)
	other.startRegistry("--gates", c.gates)
	other.awaitPage(other.admin, http.StatusOK, `"ready":true`)
	client, err := registryclient.Dial(other.registry)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = client.Close() })
	return other.process, client
}

// call calls a script of acme on the agent, and returns the error.
func (c *canaries) call(agent, ref string) error {
	c.t.Helper()
	caller, err := agentclient.New("unix:" + filepath.Join(c.dir, agent, "grpc.sock"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = caller.Close() }()
	_, err = caller.Call(c.t.Context(), "acme/"+ref)
	return err
}
