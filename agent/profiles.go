package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/scriptorium-dev/scriptorium/agent/answer"
	"github.com/scriptorium-dev/scriptorium/agent/processprofile"
	"github.com/scriptorium-dev/scriptorium/agent/profile"
	"github.com/scriptorium-dev/scriptorium/agent/worker"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// maxProfileID bounds the id of a profile, in bytes.
const maxProfileID = 64

// profiles are those that run.
type profiles struct {
	scripts profile.Profiles

	mu  sync.Mutex
	id  string // of the profile of the process
	end func() // early
}

// profileScript answers a query for a profile of a script: of its calls here, and of those in the
// process of its tenant.
func (a *Agent) profileScript(ctx context.Context, q *eventv1.Query, send answer.Send) error {
	m := q.GetScriptProfile()
	spec := profile.Spec{
		Script: script.Name{Tenant: q.GetTenant(), Script: m.GetName()}, Version: m.GetVersion(), ID: m.GetProfile(), Duration: m.GetDuration().AsDuration(),
	}
	if spec.Script.Tenant == "" || spec.Script.Script == "" || len(spec.ID) > maxProfileID {
		return script.Errorf(script.Invalid, "script", "a profile is of one script of a tenant")
	}
	running, err := a.profiles.scripts.Start(spec)
	if err != nil {
		return err
	}
	var (
		inside *worker.Profile
		failed error
		both   sync.WaitGroup
	)
	over := make(chan struct{})
	both.Go(func() { inside, failed = a.workers.Profile(ctx, spec, over) })
	result := running.Wait(ctx)
	close(over)
	both.Wait()
	if failed != nil {
		return failed
	}
	parts, others := slices.Collect(result.Parts()), result.OtherCalls
	if inside != nil {
		parts, others = append(parts, inside.Parts...), others+inside.OtherCalls
	}
	for _, part := range parts {
		if err := send(&eventv1.Answer{Kind: &eventv1.Answer_ScriptProfile{ScriptProfile: part}}); err != nil {
			return err
		}
	}
	summary := &eventv1.ProfileSummary{Took: durationpb.New(result.Took), OtherCalls: others}
	return send(&eventv1.Answer{Kind: &eventv1.Answer_ProfileSummary{ProfileSummary: summary}})
}

// profileProcess answers a query for a profile of this process. Those of tenants are not in it.
func (a *Agent) profileProcess(ctx context.Context, q *eventv1.Query, send answer.Send) error {
	m := q.GetProcessProfile()
	if len(m.GetProfile()) > maxProfileID {
		return script.Errorf(script.Invalid, "profile", "has %d bytes, at most %d are allowed", len(m.GetProfile()), maxProfileID)
	}
	a.log.Info("the registry asks for a profile of this process", "type", m.GetType(), "duration", m.GetDuration().AsDuration().String())
	end := make(chan struct{})
	if !a.profiles.begin(m.GetProfile(), sync.OnceFunc(func() { close(end) })) {
		return script.Errorf(script.Conflict, "", "another profile of this process is being taken: wait until it ends, in at most %v", processprofile.MaxDuration)
	}
	defer a.profiles.over()
	data, err := processprofile.Take(ctx, processprofile.Kind(m.GetType()), m.GetDuration().AsDuration(), end)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(data, answer.MaxPart/2) {
		if err := send(&eventv1.Answer{Kind: &eventv1.Answer_ProcessProfile{ProcessProfile: &eventv1.ProcessProfile{Data: part}}}); err != nil {
			return err
		}
	}
	return nil
}

// begin notes how to end a profile of the process, unless there is one.
func (p *profiles) begin(id string, end func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end != nil {
		return false
	}
	p.id, p.end = id, end
	return true
}

func (p *profiles) over() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id, p.end = "", nil
}

// endEvery and endFor say how long a query that ends a profile looks for one that has not begun yet:
// queries overtake each other.
const (
	endEvery = 20 * time.Millisecond
	endFor   = 2 * time.Second
)

// endProfile answers a query that ends a profile.
func (a *Agent) endProfile(ctx context.Context, q *eventv1.Query, _ answer.Send) error {
	ctx, cancel := context.WithTimeout(ctx, endFor)
	defer cancel()
	tick := time.NewTicker(endEvery)
	defer tick.Stop()
	for !a.endsProfile(q.GetTenant(), q.GetEndProfile()) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil // it is over
		}
	}
	return nil
}

func (a *Agent) endsProfile(tenant string, m *eventv1.EndProfileQuery) bool {
	if tenant != "" {
		return a.profiles.scripts.End(script.Name{Tenant: tenant, Script: m.GetName()}, m.GetProfile())
	}
	a.profiles.mu.Lock()
	defer a.profiles.mu.Unlock()
	if a.profiles.end == nil || a.profiles.id != m.GetProfile() {
		return false
	}
	a.profiles.end()
	return true
}
