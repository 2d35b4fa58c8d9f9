package scriptorium_test

import (
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/embedded/etcdtest"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// outcome is what becomes of a write while the registry is frozen.
type outcome string

const (
	refused outcome = "is refused"
	stored  outcome = "is stored, and waits"
	works   outcome = "works"
)

// TestWritesWhileFrozen: what goes back works, what is new is stored and waits, and the rest is refused
// with the freeze as the reason.
func TestWritesWhileFrozen(t *testing.T) {
	needs.Time(t, "starts five processes")
	needs.NoRace(t)
	t.Parallel()
	c := startGated(t, 2, "")
	ctx, data := t.Context(), registryclient.DataWrite{Author: "test"}
	steps := script.Plan{Steps: []script.Step{{Percent: 50, Approval: true}}}
	publish := func(name string, version int, change func(*registryclient.PublishRequest)) func() error {
		return func() error {
			p := registryclient.PublishRequest{Name: of(name), Source: []byte(returning(version)), Write: by}
			if change != nil {
				change(&p)
			}
			_, err := c.client.Publish(ctx, p)
			return err
		}
	}
	steer := func(name string, s registryclient.Steering) func() error {
		return func() error {
			_, _, err := c.client.Steer(ctx, of(name), s, 0, by)
			return err
		}
	}
	enable := func(name string, enabled bool) func() error {
		return func() error {
			_, _, err := c.client.SetEnabled(ctx, of(name), enabled, by)
			return err
		}
	}
	pin := func(name string, version uint64) func() error {
		return func() error {
			_, _, err := c.client.Pin(ctx, of(name), version, by)
			return err
		}
	}
	tenant := func(settings script.TenantSettings) func() error {
		return func() error {
			_, _, err := c.client.SetTenant(ctx, "acme", &settings, data)
			return err
		}
	}
	key := script.ValueKey{Tenant: "acme", Key: "k"}
	put := func(content string) func() error {
		return func() error {
			_, _, err := c.client.PutValue(ctx, key, []byte(content), data)
			return err
		}
	}
	// Two versions of each ran. Of some another one is on its way, or was given up.
	must := func(write func() error) {
		t.Helper()
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	onTheWay := []string{"running", "retried", "aborted", "promoted", "approved", "again", "replaced"}
	for _, name := range append([]string{"plain", "pinned", "declared", "back", "held", "off", "disabled", "failed", "lifted", "owned", "deleted", "never"}, onTheWay...) {
		must(publish(name, 1, nil))
		must(publish(name, 2, nil))
	}
	must(enable("off", false))
	must(pin("held", 1))
	must(pin("lifted", 1))
	for _, name := range append([]string{"failed", "never"}, onTheWay...) {
		c.plan(name, 3, &steps)
		c.waits(name, "step 1 needs an approval: scriptctl rollout approve acme/"+name)
	}
	c.steer("failed", registryclient.Abort)
	c.steer("never", registryclient.Abort)
	must(put("1"))
	must(put("2"))
	c.freeze()
	for _, tt := range []struct {
		what, name string
		outcome    outcome
		write      func() error
		version    uint64 // that is active then; 0 for none that counts
	}{
		{"publish", "plain", stored, publish("plain", 3, nil), 2},
		{"publish of a new script", "new", stored, publish("new", 1, nil), 0},
		{"publish with a version", "declared", stored, publish("declared", 3, func(p *registryclient.PublishRequest) { p.Pin = new(uint64(3)) }), 2},
		{"publish that lifts a hold", "lifted", stored, publish("lifted", 3, func(p *registryclient.PublishRequest) { p.LiftHold = true }), 1},
		{"release", "held", stored, func() error { _, _, err := c.client.LiftHold(ctx, of("held"), by); return err }, 1},
		{"retry of what failed", "failed", stored, steer("failed", registryclient.Retry), 2},
		{"retry during a rollout", "retried", stored, steer("retried", registryclient.Retry), 2},
		{"another plan during a rollout", "again", stored, publish("again", 3, func(p *registryclient.PublishRequest) { p.Settings = &script.Settings{} }), 2},
		{"publish during a rollout", "replaced", stored, publish("replaced", 4, nil), 2},
		{"rollback", "back", works, func() error { _, _, err := c.client.Rollback(ctx, of("back"), 0, by); return err }, 1},
		{"pin to what was live", "pinned", works, pin("pinned", 1), 1},
		{"hold", "owned", works, pin("owned", 0), 2},
		{"disable", "disabled", works, enable("disabled", false), 2},
		{"abort", "aborted", works, steer("aborted", registryclient.Abort), 2},
		{"approve", "approved", works, steer("approved", registryclient.Approve), 2},
		{"owner", "owned", works, func() error { _, _, err := c.client.SetOwner(ctx, of("owned"), "ann", by); return err }, 2},
		{"pin to what never was live", "never", refused, pin("never", 3), 2},
		{"enable", "off", refused, enable("off", true), 2},
		{"publish that enables", "off", refused, publish("off", 2, func(p *registryclient.PublishRequest) { p.Enabled = new(true) }), 2},
		{"promote", "promoted", refused, steer("promoted", registryclient.Promote), 2},
		{"delete", "deleted", refused, func() error { _, err := c.client.Delete(ctx, of("deleted"), by); return err }, 2},
		{"kv put", "", refused, put("3"), 0},
		{"kv rollback", "", refused, func() error { _, _, err := c.client.RollbackValue(ctx, key, 0, data); return err }, 0},
		{"kv delete", "", refused, func() error { _, err := c.client.DeleteValue(ctx, key, data); return err }, 0},
		{"tenant set", "", refused, tenant(script.TenantSettings{Concurrency: 3}), 0},
		{"tenant set of what agents do not apply", "", works, tenant(script.TenantSettings{Scripts: 900}), 0},
		{"accept a loss", "", refused, func() error { _, err := c.client.AcceptLoss(ctx, 1, "ann", ""); return err }, 0},
	} {
		err := tt.write()
		if tt.outcome == refused && (err == nil || !strings.Contains(err.Error(), "frozen by ann")) || tt.outcome != refused && err != nil {
			t.Errorf("%s of %s: %v; want that it %s", tt.what, tt.name, err, tt.outcome)
		}
		if tt.name == "" {
			continue
		}
		r, err := c.client.Get(ctx, of(tt.name))
		if err != nil || tt.version > 0 && r.Active.Number != tt.version || r.Frozen() != (tt.outcome == stored) {
			t.Errorf("%s of %s: v%d is active and waits for the thaw: %v; want v%d that %s; %v", tt.what, tt.name, r.Active.Number, r.Frozen(), tt.version, tt.outcome, err)
		}
	}
	for name, want := range map[string]string{"replaced": "2", "retried": "2", "back": "1", "pinned": "1"} {
		for agent := range c.agents {
			c.answersOf(agent, name, want)
		}
	}
	if r, err := c.client.Get(ctx, of("running")); err != nil || r.Candidate == nil || r.Candidate.Step != 1 {
		t.Errorf("a rollout that nobody touched: %+v, %v", r.Candidate, err)
	}
	c.imports()
	c.thaw()
	for name, version := range map[string]uint64{"plain": 3, "new": 1, "declared": 3, "held": 2, "again": 3} {
		c.live(name, version)
	}
}

// imports: what differs is refused, and an archive with what waits has it given up elsewhere.
func (c *canaries) imports() {
	c.t.Helper()
	other := startGated(c.t, 1, "")
	options := registryclient.ImportOptions{Author: "ann", Overwrite: true}
	if _, err := other.client.Import(c.t.Context(), options, c.client.Export(c.t.Context(), "acme")); err != nil {
		c.t.Fatal(err)
	}
	if freeze, err := other.client.Frozen(c.t.Context()); err != nil || freeze != nil {
		c.t.Errorf("the archive has the freeze %+v, %v", freeze, err)
	}
	if why := other.fails("plain"); !strings.Contains(why, "scriptctl rollout retry acme/plain") {
		c.t.Errorf("what waited is given up: %s", why)
	}
	other.plan("plain", 9, nil)
	_, err := c.client.Import(c.t.Context(), options, other.client.Export(c.t.Context(), "acme"))
	if err == nil || !strings.Contains(err.Error(), "frozen by ann") {
		c.t.Errorf("import of what differs while frozen: %v", err)
	}
}

// TestFaultsOfAFreeze: the record in etcd cannot be read, or is gone; and a leader hangs while the
// registry is frozen by way of another one.
func TestFaultsOfAFreeze(t *testing.T) {
	needs.Time(t, "starts five processes")
	needs.NoRace(t)
	t.Parallel()
	c := startGated(t, 2, "")
	etcd := etcdtest.Client(t, c.etcd.Endpoint())
	const record = "/scriptorium/meta/freeze"
	c.plan("route", 1, nil)
	c.plan("route", 2, &script.Plan{Steps: []script.Step{{Percent: 50, Pause: 2 * time.Second}, {Percent: 60, Approval: true}}})
	c.waits("route", "the pause of step 1 goes on")

	first := c.process
	other, second := c.second()
	running := c.is("route", "runs on its agent", func(r *script.Release) bool { return !r.Candidate.Running.IsZero() }).Candidate.Running
	c.halt(first)
	if _, err := second.Freeze(t.Context(), 0, []string{"acme/free"}, "ann", "incident 12"); err != nil {
		t.Fatal(err)
	}
	await(t, "the second leads, and the pause is over", func() bool {
		return strings.Contains(other.output.String(), "this replica leads") && time.Since(running) > 2*time.Second
	})
	c.resume(first)
	c.waits("route", "the registry is frozen by ann")
	if r := c.is("route", "has a candidate", func(r *script.Release) bool { return r.Candidate != nil }); r.Candidate.Step != 1 {
		t.Errorf("a leader that hung has taken step %d", r.Candidate.Step)
	}

	c.plan("free", 1, nil)
	c.live("free", 1)
	if _, err := etcd.Put(t.Context(), record, "\xff"); err != nil {
		t.Fatal(err)
	}
	await(t, "nothing is excepted", func() bool {
		freeze, err := second.Frozen(t.Context())
		return err == nil && freeze != nil && len(freeze.Except) == 0
	})
	c.plan("free", 2, nil)
	c.is("free", "waits for the thaw", (*script.Release).Frozen)
	found := ""
	for f, err := range c.client.Doctor(t.Context(), registryclient.DoctorOptions{}) {
		if err == nil {
			found += f.Key + " "
		}
	}
	if !strings.Contains(found, "meta/freeze") {
		t.Errorf("doctor finds %q", found)
	}
	c.thaw()
	c.live("free", 2)
	c.waits("route", "step 2 needs an approval: scriptctl rollout approve acme/route")

	c.freeze()
	c.steer("route", registryclient.Approve)
	c.waits("route", "the registry is frozen by ann")
	if _, err := etcd.Delete(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	await(t, "writes pass", func() bool {
		c.probes++
		p, err := c.client.Publish(t.Context(), registryclient.PublishRequest{Name: of("probe"), Source: []byte(returning(c.probes)), Write: by})
		return err == nil && !p.Release.Frozen()
	})
	_, _ = other.cmd.Process.Kill(), other.cmd.Wait()
	c.killRegistry()
	c.live("route", 2)
}
