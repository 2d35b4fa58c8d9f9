// Package controller puts Scripts and LuaScripts into the registry, and says in their status how far
// they have come on the fleet.
//
// A reconciliation learns what the registry has, decides on one action (Decide, which is
// pure), takes it, and writes the status once. It is woken by changes of the
// object, of its ScriptTenant and namespace, and by the fleet's watch; nothing is polled
// but what somebody has to change, once a minute. What one reconciliation knows is kept
// for the next, so that most of them ask nobody: see memory.
package controller

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/fleet"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/operator/tenancy"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Registry keeps scripts: a registryclient.Client. Its errors are *script.Error. Each
// request has to be bounded, by a few seconds: of a registry that hangs the status is to
// tell within one reconciliation.
type Registry interface {
	Get(ctx context.Context, name script.Name) (script.Release, error)
	Source(ctx context.Context, ref script.Ref) (script.Edition, error)
	Publish(ctx context.Context, p registryclient.PublishRequest) (registryclient.Published, error)
	Pin(ctx context.Context, name script.Name, version uint64, w registryclient.Write) (script.Release, bool, error)
	LiftHold(ctx context.Context, name script.Name, w registryclient.Write) (script.Release, bool, error)
	Delete(ctx context.Context, name script.Name, w registryclient.Write) (script.Release, error)
}

// Fleet tells how far scripts have come: a fleet.Watch.
type Fleet interface {
	State() fleet.State
	Status(name script.Name) (registryclient.ScriptStatus, bool)
	Subscribe(f func(fleet.Changed))
}

// Config of the controllers.
type Config struct {
	Registry Registry
	Fleet    Fleet
	// DeleteWait is how long the removal of an object waits for the registry, before
	// it goes and the script stays; 0 for ever.
	DeleteWait time.Duration
	// Concurrency is how many objects of each kind are reconciled at once; DefaultConcurrency if 0.
	Concurrency int
	Log         *slog.Logger
	// Metrics is where the controller's metrics are registered.
	Metrics prometheus.Registerer
	// Tracer makes the spans of changes in the registry; nil for none.
	Tracer trace.Tracer
}

// DefaultConcurrency is how many objects are reconciled at once unless it is set.
// Most of the time they wait for the registry and the API server.
const DefaultConcurrency = 16

// Reconciler reconciles the objects of one kind. Setup makes one for each.
type Reconciler struct {
	kind     kinds.Kind
	client   client.Client
	events   events.EventRecorder
	registry Registry
	fleet    Fleet
	wait     time.Duration
	log      *slog.Logger
	metrics  *metrics
	tracer   trace.Tracer
	memories sync.Map // types.NamespacedName → *memory
	arrivals arrivals
}

// +kubebuilder:rbac:groups=scriptorium.dev,resources=scripts;luascripts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=scriptorium.dev,resources=scripts/status;luascripts/status,verbs=patch
// +kubebuilder:rbac:groups=scriptorium.dev,resources=scripttenants,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	ls, err := r.kind.Get(ctx, r.client, req.NamespacedName)
	if apierrors.IsNotFound(err) {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	x := r.begin(ls)
	if !ls.DeletionTimestamp.IsZero() {
		return later(x.remove(ctx))
	}
	return later(x.follow(ctx))
}

// later makes waits, 0 for none, and an error a result.
func later(wait time.Duration, err error) (ctrl.Result, error) {
	switch {
	case apierrors.IsConflict(err):
		// The cache is behind; it will be along.
		return ctrl.Result{RequeueAfter: conflictWait}, nil
	case errors.Is(err, context.Canceled), // the operator is stopping
		errors.Is(err, errGone):
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: wait}, nil
}

// conflictWait is the time for the cache to catch up after a conflict.
const conflictWait = 50 * time.Millisecond

// reconciliation is one of one object.
type reconciliation struct {
	*Reconciler
	ls    *v1alpha1.LuaScript
	m     *memory
	name  script.Name
	owner string
	now   time.Time
	facts facts
}

func (r *Reconciler) begin(ls *v1alpha1.LuaScript) *reconciliation {
	x := &reconciliation{
		Reconciler: r, ls: ls, m: r.memoryOf(ls), now: time.Now(),
		name:  script.Name{Tenant: ls.Spec.TenantID, Script: ls.Name},
		owner: r.kind.Owner(ls.Namespace, ls.Name),
	}
	arrived := r.arrivals.of(ls)
	if arrived.IsZero() {
		arrived = x.now
	}
	x.m.see(ls, arrived)
	x.m.trace.of(ls)
	x.facts = facts{generation: ls.Generation, deleting: !ls.DeletionTimestamp.IsZero(), state: r.fleet.State()}
	if s, ok := r.fleet.Status(x.name); ok {
		x.facts.agent = &s
	}
	return x
}

// follow makes the registry's script what the spec says, and the status what is true.
func (x *reconciliation) follow(ctx context.Context) (time.Duration, error) {
	wait, err := x.bring(ctx)
	if err != nil {
		return 0, err
	}
	m := x.m
	if f := x.facts.fault; f != nil && f.permanent {
		m.measured = true // the time that somebody takes to change it is not the operator's
	}
	x.recall()
	x.facts.published = x.facts.release != nil && m.settled == x.ls.Generation
	x.followCandidate()
	x.followFailures()
	pause, err := x.report(ctx)
	lasts := soonest(x.facts.staysTrue(x.now), x.facts.patienceLasts(x.now))
	return soonest(soonest(wait, pause), lasts), err
}

// recall makes what is known of the registry's script facts.
func (x *reconciliation) recall() {
	m := x.m
	x.facts.release = m.own(x.owner)
	x.facts.unknown = !m.asked && !m.knows(x.facts.state, x.told())
}

// bring makes the registry's script what the spec says, unless that cannot be, which is a
// fault. It returns when to try again; 0 if there is no need to. An error is one of
// the API server.
func (x *reconciliation) bring(ctx context.Context) (time.Duration, error) {
	m, generation := x.m, x.ls.Generation
	tenant, denied, err := x.tenant(ctx)
	if err != nil {
		return 0, err
	}
	if m.own(x.owner) != nil { // somebody may have taken the finalizer away
		if err := x.finalize(ctx); err != nil {
			return 0, err
		}
	}
	if m.settled == generation && m.settledHold == x.holdAnnotation() && m.knows(x.facts.state, x.told()) {
		m.retry = retry{}
		x.facts.fault = denied
		return 0, nil
	}
	want, wrong := x.wanted()
	x.facts.fault = cmp.Or(wrong, denied, m.retry.fault)
	if wait := m.retry.wait(generation, x.facts.state.Session, x.now); wait > 0 {
		return wait, nil
	}
	have, err := x.have(ctx)
	var newest *script.Spec
	if err == nil {
		newest, err = x.newest(ctx, have)
	}
	if err != nil {
		wait := x.failed(faultOf(err))
		x.facts.fault = cmp.Or(wrong, denied, x.facts.fault)
		return wait, nil
	}
	x.facts.fault = nil
	x.overtaken(have, newest)
	action := Decide(Situation{
		Want: want, Owner: x.owner, Hold: x.hold(), Have: have, Newest: newest, Allowed: denied == nil,
		Bounded: tenant != nil && tenancy.Settled(tenant), Known: m.status(x.ls).Revision != 0,
	})
	switch action.Kind {
	case Keep:
		x.facts.fault = denied
		x.found(have)
		x.keep()
		return 0, x.finalize(ctx)
	case Refuse: // until the spec, the ScriptTenant or the namespace changes, which are watched
		x.facts.fault = cmp.Or(wrong, denied)
		return 0, nil
	case Await: // until the ScriptTenant changes
		x.facts.fault = awaiting(tenant)
		return 0, nil
	case Hold, Lift:
		return x.setHold(ctx, action.Kind == Hold)
	}
	return x.publish(ctx, want, action)
}

// wanted returns what the spec says, or what is wrong with it.
func (x *reconciliation) wanted() (*spec.Wanted, *fault) {
	want, err := spec.From(x.kind, x.ls)
	if err != nil {
		return nil, faultOf(err)
	}
	return &want, nil
}

// tenant returns the ScriptTenant, or why the namespace may not act for it.
func (x *reconciliation) tenant(ctx context.Context) (*v1alpha1.ScriptTenant, *fault, error) {
	t, err := tenancy.Find(ctx, x.client, x.name.Tenant, x.ls.Namespace)
	if script.KindOf(err) == script.Denied {
		return nil, faultOf(err), nil
	}
	return t, nil, err
}

// told returns the release that the fleet's watch reported; nil for none.
func (x *reconciliation) told() *script.Release {
	if x.facts.agent == nil {
		return nil
	}
	return &x.facts.agent.Release
}

// have returns what the registry has, nil for no such script, and asks it unless that is
// known.
func (x *reconciliation) have(ctx context.Context) (*script.Release, error) {
	if x.m.knows(x.facts.state, x.told()) {
		return x.m.answer, nil
	}
	release, err := x.registry.Get(ctx, x.name)
	switch script.KindOf(err) {
	case "":
		x.m.learn(&release, x.facts.state.Session)
	case script.NotFound:
		x.m.learn(nil, x.facts.state.Session)
	default:
		return nil, err
	}
	return x.m.answer, nil
}

// newest returns what the newest version runs with, if have does not say enough of it.
func (x *reconciliation) newest(ctx context.Context, have *script.Release) (*script.Spec, error) {
	if !hidesNewest(have) {
		return nil, nil
	}
	v, _ := have.Newest()
	edition, err := x.registry.Source(ctx, script.Ref{Name: x.name, Version: v.Number})
	switch script.KindOf(err) {
	case "":
		return &edition.Spec, nil
	case script.NotFound, script.Internal: // dropped since, or it cannot be read: a publish puts that right
		return nil, nil
	}
	return nil, err
}

// failed takes note that the registry did not do what it was asked, and returns when to
// ask again.
func (x *reconciliation) failed(f *fault) time.Duration {
	x.facts.fault = f
	wait := x.m.retry.failed(f, x.ls.Generation, x.facts.state.Session, time.Now())
	x.log.Debug("the registry did not do it", "object", x.owner, "again_in", wait, "error", f.err)
	return wait
}

// overtaken takes note of what became of a publish if the spec was edited before that was
// known. It was done if the registry has what was asked for.
func (x *reconciliation) overtaken(have *script.Release, newest *script.Spec) {
	p := x.m.pending
	if p.ls == nil || p.ls.Generation == x.ls.Generation {
		return
	}
	x.m.pending = pending{}
	if have != nil && have.Owner == x.owner && have.Revision > p.after && len(difference(p.want, have, newest).Changes) == 0 {
		then := *x
		then.ls = p.ls // so that its events do not merge with those of the edit
		then.done(have, p.action)
	}
}

// found takes note of a publish without an event, if the registry has what is wanted: the
// answer to the publish got lost, or the operator before this one did not get to write
// the status.
func (x *reconciliation) found(have *script.Release) {
	m, status := x.m, x.m.status(x.ls)
	switch {
	case m.pending.ls != nil:
		x.done(have, m.pending.action)
	case m.had == 0 && len(m.news) == 0 && status.Revision != int64(have.Revision):
		m.announce = true
		if have.Latest > uint64(status.LatestVersion) { //nolint:gosec // the registry's number
			m.news = append(m.news, func() { x.tell(have, Action{Changes: []Change{Published}}, false) })
		}
	}
}

// keep takes note that the registry has what is wanted.
func (x *reconciliation) keep() {
	m := x.m
	m.settled, m.settledHold, m.had, m.pending, m.retry = x.ls.Generation, x.holdAnnotation(), x.ls.Generation, pending{}, retry{}
}

// publish makes the registry's script what is wanted.
func (x *reconciliation) publish(ctx context.Context, want *spec.Wanted, action Action) (time.Duration, error) {
	m := x.m
	if x.wasPublished() {
		if wait := m.restores.wait(x.now); wait > 0 {
			x.facts.fault = contended(x.kind, m.restores.times)
			return wait, nil
		}
	}
	if err := x.finalize(ctx); err != nil {
		return 0, err
	}
	before := m.pending
	m.pending = pending{action: action, want: want, ls: x.ls}
	if m.answer != nil {
		m.pending.after = m.answer.Revision
	}
	traced, end := x.trace(ctx, action.Kind, x.wasPublished())
	published, err := x.registry.Publish(traced, want.Publish())
	end(err)
	if err != nil {
		f := faultOf(want.Locate(err))
		if !f.uncertain() {
			m.pending = before
		}
		m.invalidate()
		return x.failed(f), nil
	}
	m.learn(&published.Release, x.facts.state.Session)
	if !published.Changed { // the one before came after all, since the registry was asked
		action = before.action
	}
	if len(action.Changes) > 0 {
		x.done(&published.Release, action)
		m.grace = time.Now().Add(graceForFleet)
	}
	x.keep()
	if x.contradicts(&published.Release) { // it is new, or its annotation went with the edit
		return x.setHold(ctx, x.hold() != nil)
	}
	return 0, nil
}

// done takes note that a publish changed something, and queues the event.
func (x *reconciliation) done(r *script.Release, action Action) {
	m := x.m
	restored := x.wasPublished()
	if restored {
		m.restores.done(time.Now())
	}
	// With the status, and not now: while agents take the change up, requests to the API
	// server are in its way where they share processors.
	m.news = append(m.news, func() { x.tell(r, action, restored) })
	m.announce = true
	x.log.Info("published", "object", x.owner, "script", r.Name, "version", wantedVersion(r), "active", activeVersion(r), "revision", r.Revision, "changes", action.Changes, "configured", action.Configured)
}

// graceForFleet is how long the status waits for the fleet after a publish: mostly one
// write tells of both.
const graceForFleet = 100 * time.Millisecond

// wasPublished reports whether the registry had what this generation says before, so
// that somebody else changed it since.
func (x *reconciliation) wasPublished() bool {
	if x.m.had == x.ls.Generation {
		return true
	}
	s := x.m.status(x.ls)
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionPublished)
	return s.Revision != 0 && c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == x.ls.Generation
}

// soonest returns the shorter of two waits, of which 0 means none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
