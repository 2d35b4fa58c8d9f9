package scriptorium_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// refused: what keeps one script as it is keeps all of the change set away, unless it is forced.
func (p pairs) refused(t *testing.T) {
	p = p.in(t)
	p.ready("held")
	p.wrote(p.client.Pin(t.Context(), of("held-b"), 0, by))
	p.refuses(p.request("held", 2), script.Denied, "acme/held-b is held at v1")
	p.ready("pinned")
	pinned := p.request("pinned", 2)
	pinned.Scripts[1].Pin = new(uint64(1))
	p.refuses(pinned, script.Invalid, "the change set decides which version runs")

	p.ready("owned")
	p.wrote(p.client.SetOwner(t.Context(), of("owned-b"), "LuaScript shop/b", by))
	p.refuses(p.request("owned", 2), script.Denied, "acme/owned-b")
	forced := p.request("owned", 2)
	forced.Force = true
	p.publish(forced)
	p.onTrial("owned")
	p.publishes("owned-b", 1, func(r *registryclient.PublishRequest) { // as the operator does
		r.Source, r.Owner = p.script("owned", "-b", 1).Source, "LuaScript shop/b"
	})
	p.becomes("owned", script.ChangeSetFailed)
	p.fails("owned-a")
	p.answer("owned", "1 1", "1 1", "1")
}

func (p pairs) rollsBack(t *testing.T) {
	p = p.in(t)
	p.tries("trial")
	p.mustRollback("trial", false)
	if set := p.becomes("trial", script.ChangeSetFailed); set.Reason != "rolled back by bob: too slow" {
		t.Errorf("it was given up because of %q", set.Reason)
	}
	for _, part := range []string{"-a", "-b"} {
		p.fails("trial" + part)
		if r := p.is("trial"+part, "is there", func(*script.Release) bool { return true }); r.Hold != nil {
			t.Errorf("%s is held: %v", r.Name, r.Hold)
		}
	}
	p.answer("trial", "1 1", "1 1", "1")
}

// changedSince: what somebody has changed since stays, unless the rollback is forced.
func (p pairs) changedSince(t *testing.T) {
	p = p.in(t)
	for pair, change := range map[string]func(pair string){
		"script-since": func(pair string) {
			p.publishes(pair+"-b", 3, func(r *registryclient.PublishRequest) { r.Source = p.script(pair, "-b", 3).Source })
			p.live(pair+"-b", 3)
		},
		"value-since": func(pair string) { p.put(pair, "9") },
	} {
		p.tries(pair)
		p.steer(pair+"-a", registryclient.Promote)
		p.becomes(pair, script.ChangeSetLive)
		change(pair)
		before := p.state(pair)
		if err := p.rollback(pair, false); script.KindOf(err) != script.Conflict || !strings.Contains(err.Error(), "--force") {
			t.Errorf("%s: %v", pair, err)
		}
		if after := p.state(pair); after != before {
			t.Errorf("a rollback was refused. What the change set has was %s, and is %s", before, after)
		}
		p.mustRollback(pair, true)
		p.becomes(pair, script.ChangeSetRolledBack)
		p.answer(pair, "1 1", "1 1", "1")
	}
}

// whileFrozen: nothing is published, and values do not go back. Scripts do, by themselves.
func (p pairs) whileFrozen(t *testing.T) {
	p = p.in(t)
	p.tries("frozen")
	p.steer("frozen-a", registryclient.Promote)
	p.becomes("frozen", script.ChangeSetLive)
	p.freeze()
	p.refuses(p.request("frozen", 3), script.Denied, "frozen by ann")
	before := p.state("frozen")
	if err := p.rollback("frozen", false); script.KindOf(err) != script.Denied || !strings.Contains(err.Error(), "frozen by ann") {
		t.Errorf("a rollback with values: %v", err)
	}
	if after := p.state("frozen"); after != before {
		t.Errorf("a rollback was refused. What the change set has was %s, and is %s", before, after)
	}
	for _, part := range []string{"-a", "-b"} {
		p.wrote(p.client.Rollback(t.Context(), of("frozen"+part), 0, by))
	}
	p.answer("frozen", "1 2", "1 2", "2")
	p.thaw()
}
