//go:build !linux

package worker

import (
	"context"
	"runtime"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/profile"
	"github.com/scriptorium-dev/scriptorium/agent/tryout"
	"github.com/scriptorium-dev/scriptorium/engine"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// host starts no processes here.
type host struct{}

func newHost(*Pool) (*host, error) { return &host{}, nil }

func (*host) close() {}

func (*host) ready() int { return 0 }

// tenant is one that asks for a process and gets none: its calls are refused.
type tenant struct {
	pool *Pool
	name string
}

func newTenant(p *Pool, name string, _ script.TenantSettings, _ *change) *tenant {
	return &tenant{pool: p, name: name}
}

func (t *tenant) start() {
	t.pool.cfg.Log.Error("a tenant asks for a process of its own, which this agent cannot give: its calls are refused", "tenant", t.name, "system", runtime.GOOS)
}

func (t *tenant) execute(context.Context, *gateway.Call, *gateway.Reply, *engine.Used, bool) (course, error) {
	return notRun, script.Errorf(script.Unavailable, "tenant", "tenant %s asks for a process of its own, which an agent on %s cannot give: run the agent on Linux, or set the tenant's isolation to %s",
		t.name, runtime.GOOS, script.IsolationShared)
}

// told is a change that no process has to get.
type told struct{ done chan struct{} }

func (*tenant) tell(*change) *told {
	done := make(chan struct{})
	close(done)
	return &told{done: done}
}

func (*tenant) await(*told, time.Time)       {}
func (*tenant) closeSockets(bool)            {}
func (*tenant) leave(context.Context)        {}
func (*tenant) quarantined() []Quarantined   { return nil }
func (*tenant) lag() (script.Revision, bool) { return 0, true } // nothing of it runs
func (*tenant) serves() bool                 { return false }
func (*tenant) profile(context.Context, profile.Spec, <-chan struct{}) (*Profile, error) {
	return nil, nil
}

func (t *tenant) tryOut(ctx context.Context, _ *eventv1.TryScript) (*tryout.Answer, error) {
	_, err := t.execute(ctx, nil, nil, nil, true)
	return nil, err
}
func (t *tenant) status() Status { return Status{Tenant: t.name} }
