package execute

import (
	"context"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/admission"
	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/shadow"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// unpublishedTenant comes before a tenant's name where its unpublished programs are accounted for. No tenant
	// has such a name.
	unpublishedTenant = "\x00unpublished "
	// unpublishedMemory divides the tenant's memory limit: an unpublished script gets a quarter of it.
	unpublishedMemory = 4
	// unpublishedPatience is how long one of their calls waits for a free turn.
	unpublishedPatience = 5 * time.Second
	// unpublishedTries bounds the attempts at a call that runs out of time while other calls had its turn.
	unpublishedTries = 3
)

// Bounds of what a call of an unpublished program logs.
const (
	MaxUnpublishedLogs     = 100
	maxUnpublishedLogBytes = 16 << 10 // of all lines of a call
)

// Unpublished is the program of a script that no table has. Its calls run like the tenant's calls, but only in turns
// that no other call wants. They change nothing: counters are 0 and buckets are full at the start of each call, and
// no metric, usage, profile or record counts them. One call runs at a time.
type Unpublished struct {
	executor *Executor
	name     script.Name
	edition  *script.Edition
	program  engine.Program
	settings script.TenantSettings // of admission
	tenant   script.TenantSettings
	turn     admission.Turn
}

// Unpublished compiles a script for the caller alone, who closes it. It returns the engine's errors, or Overloaded.
func (x *Executor) Unpublished(ctx context.Context, name script.Name, e *script.Edition) (*Unpublished, error) {
	u := &Unpublished{executor: x, name: name, edition: e, tenant: x.tenants(name.Tenant).OrDefaults()}
	u.settings = script.TenantSettings{CPU: u.tenant.CPU, Concurrency: 1}
	if err := u.enter(ctx, x.compiles.gate); err != nil {
		return nil, err
	}
	defer u.turn.Leave()
	var err error
	u.program, err = x.programs.Compile(name.Tenant, cache.KeyOf(e.With(e.Spec)), e.Source, e.Spec.Inputs())
	if err != nil {
		return nil, err
	}
	return u, nil
}

// Close gives up what the engine keeps of the program.
func (u *Unpublished) Close() { u.program.Close() }

// Limits returns what bounds each call.
func (u *Unpublished) Limits() script.Limits {
	return u.edition.Spec.Limits.OrDefaults().AtMost(u.tenant.Limits)
}

// UnpublishedCall is what came of a call.
type UnpublishedCall struct {
	Result  engine.Result
	Err     error // a *script.Error, or nil
	Used    engine.Used
	Ran     time.Duration // with a turn
	Logs    []UnpublishedLog
	Dropped uint64 // lines
}

// UnpublishedLog is a line that the script logged.
type UnpublishedLog struct {
	Time    time.Time
	Level   engine.Level
	Message string
}

// Call runs the program once.
func (u *Unpublished) Call(ctx context.Context, args [][]byte) *UnpublishedCall {
	for try := 1; ; try++ {
		c := u.call(ctx, args)
		waited := u.turn.Waited()
		if script.KindOf(c.Err) != script.Timeout || waited == 0 || ctx.Err() != nil {
			return c
		}
		if try == unpublishedTries {
			e := *script.AsError(c.Err)
			e.Message += "; other calls had its turn meanwhile: try again"
			c.Err = &e
			return c
		}
	}
}

func (u *Unpublished) call(ctx context.Context, args [][]byte) *UnpublishedCall {
	c := &UnpublishedCall{}
	if c.Err = u.enter(ctx, u.executor.gate); c.Err != nil {
		return c
	}
	inv := engine.Invocation{
		Tenant: unpublishedTenant + u.name.Tenant, Script: u.name.Script, Args: args, Config: u.edition.Spec.Config, Limits: u.Limits(),
		Memory: u.tenant.MemoryBytes / unpublishedMemory, Turn: &u.turn, Used: &c.Used,
	}
	if u.executor.host != nil {
		inv.Host = &unpublishedHost{Host: u.executor.host, tenant: u.name.Tenant, state: &shadow.State{}, call: c}
	}
	defer func() {
		u.turn.Leave()
		c.Ran = u.turn.Used()
	}()
	c.Err = u.program.Run(ctx, &inv, &c.Result)
	return c
}

// enter waits for a free turn.
func (u *Unpublished) enter(ctx context.Context, gate *admission.Gate) error {
	call := &admission.Call{Tenant: unpublishedTenant + u.name.Tenant, Settings: &u.settings, Timeout: u.Limits().Timeout, Background: true}
	until := time.Now().Add(unpublishedPatience)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := gate.Enter(ctx, &u.turn, call)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if time.Now().After(until) {
			return script.Errorf(script.Overloaded, "", "the agent had no free turn for %v, and calls of gateways come first: try again, or on another agent", unpublishedPatience)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// unpublishedHost is the Host of such a call. It reads the live values, and changes nothing.
type unpublishedHost struct {
	engine.Host
	tenant string
	state  *shadow.State
	call   *UnpublishedCall
	bytes  int
}

// Log implements engine.Host.
func (h *unpublishedHost) Log(_ *engine.Invocation, level engine.Level, message string) {
	room := maxUnpublishedLogBytes - h.bytes
	if len(h.call.Logs) == MaxUnpublishedLogs || room <= 0 {
		h.call.Dropped++
		return
	}
	message = script.CutText(message, room)
	h.bytes += len(message)
	h.call.Logs = append(h.call.Logs, UnpublishedLog{time.Now(), level, message})
}

// Value implements engine.Host.
func (h *unpublishedHost) Value(_, key string) ([]byte, bool, error) {
	return h.Host.Value(h.tenant, key)
}

// Keys implements engine.Host.
func (h *unpublishedHost) Keys(_, prefix, after string, limit int) []string {
	return h.Host.Keys(h.tenant, prefix, after, limit)
}

// Count implements engine.Host.
func (h *unpublishedHost) Count(_, counter string, n float64) (float64, error) {
	return h.state.Count(counter, n)
}

// Take implements engine.Host.
func (h *unpublishedHost) Take(_, bucket string, n, rate, burst float64) (bool, time.Duration) {
	return h.state.Take(time.Now(), bucket, n, rate, burst)
}
