package tenancy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The reasons of conditions.
const (
	reasonConfigured  = "Configured"
	reasonInvalid     = "Invalid"
	reasonRefused     = "Refused"
	reasonUnavailable = "RegistryUnavailable"
	reasonFrozen      = "Frozen"
	reasonInUse       = "InUse"
	reasonDeleting    = "Deleting"
)

// The reasons of events, besides reasonConfigured and reasonRefused.
const (
	eventRestored  = "Restored"
	eventDeleted   = "Deleted"
	eventAbandoned = "Abandoned"
)

// reconciler makes the registry have what ScriptTenants say.
type reconciler struct {
	client     client.Client
	registry   Registry
	events     events.EventRecorder
	deleteWait time.Duration
	resync     time.Duration
	now        func() time.Time
	tracer     trace.Tracer
	memories   sync.Map // string → *memory, by name
}

// Reconcile is one look at one ScriptTenant: it makes the registry have its settings,
// or takes them away, and writes the status once.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	t := &v1alpha1.ScriptTenant{}
	err := r.client.Get(ctx, req.NamespacedName, t)
	if apierrors.IsNotFound(err) {
		r.forget(req.Name)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	m := r.recall(t)
	m.edit.See(t, t.Status.ObservedGeneration)
	if !t.DeletionTimestamp.IsZero() {
		return r.remove(ctx, m, t)
	}
	if !controllerutil.ContainsFinalizer(t, v1alpha1.Finalizer) {
		before := t.DeepCopy()
		controllerutil.AddFinalizer(t, v1alpha1.Finalizer)
		if err := r.patch(ctx, before, t); err != nil {
			return again(err)
		}
	}
	failed := r.apply(ctx, m, t)
	scripts, _, err := r.scripts(ctx, t)
	if err != nil {
		return ctrl.Result{}, err
	}
	t.Status.Scripts = int32(scripts) //nolint:gosec // objects of one cluster
	if err := r.report(ctx, m, t); err != nil {
		return again(err)
	}
	if script.IsFrozen(failed) {
		return ctrl.Result{RequeueAfter: thawed*4/5 + rand.N(thawed*2/5)}, nil
	}
	if isTemporary(failed) {
		return ctrl.Result{}, failed // the queue asks again, ever more slowly
	}
	return ctrl.Result{RequeueAfter: r.resync*9/10 + rand.N(r.resync/5)}, nil
}

// again is what to do after a write that the API server did not take.
func again(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil // the cache is behind
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// patch writes t's metadata, unless t is another than before by now: the patch has all
// finalizers, so it must not undo what others did to them.
func (r *reconciler) patch(ctx context.Context, before, t *v1alpha1.ScriptTenant) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return r.client.Patch(ctx, t, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// send makes the registry have these settings of t; none if they are nil. What puts right what others
// changed belongs to no caller's trace.
func (r *reconciler) send(ctx context.Context, t *v1alpha1.ScriptTenant, settings *script.TenantSettings, caller tracecontext.Context) (script.Tenant, error) {
	ctx, end := r.trace(ctx, t, caller)
	set, _, err := r.registry.SetTenant(ctx, t.Name, settings, registryclient.DataWrite{Author: spec.Author("scripttenant/" + t.Name)})
	end(err)
	return set, err
}

// trace begins the span of a change in the registry, in the trace of the caller.
func (r *reconciler) trace(ctx context.Context, t *v1alpha1.ScriptTenant, caller tracecontext.Context) (_ context.Context, end func(error)) {
	ctx, span := r.tracer.Start(tracecontext.With(ctx, caller), "reconcile ScriptTenant", trace.WithAttributes(
		attribute.String("scriptorium.tenant", tracecontext.Text(t.Name)), attribute.Int64("scriptorium.generation", t.Generation),
	))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, tracecontext.Text(err.Error()))
			span.SetAttributes(attribute.String("error.type", string(script.KindOf(err))))
		}
		span.End()
	}
}

// thawed is how often it is looked whether a freeze of the registry is over.
const thawed = time.Minute

// isTemporary reports whether an error of the registry may go by itself soon.
func isTemporary(err error) bool {
	switch script.KindOf(err) {
	case "", script.Invalid, script.Denied, script.Limit, script.NotFound:
		return false
	}
	return true
}

// apply makes the registry have what t says, puts into t's conditions what came of it,
// and returns the fault.
func (r *reconciler) apply(ctx context.Context, m *memory, t *v1alpha1.ScriptTenant) error {
	settings, err := spec.TenantSettings(t)
	if err != nil {
		r.fault(t, reasonInvalid, err)
		return err
	}
	has, err := r.configure(ctx, m, t, settings)
	switch {
	case isTemporary(err), script.IsFrozen(err):
		reason := reasonUnavailable
		if script.IsFrozen(err) {
			reason = reasonFrozen
		}
		r.set(t, v1alpha1.ConditionReady, metav1.ConditionFalse, reason, err.Error())
		r.set(t, v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, err.Error())
		meta.RemoveStatusCondition(&t.Status.Conditions, v1alpha1.ConditionStalled)
		return err
	case err != nil:
		r.fault(t, reasonRefused, err)
		return err
	}
	r.set(t, v1alpha1.ConditionReady, metav1.ConditionTrue, reasonConfigured, has)
	meta.RemoveStatusCondition(&t.Status.Conditions, v1alpha1.ConditionReconciling)
	meta.RemoveStatusCondition(&t.Status.Conditions, v1alpha1.ConditionStalled)
	return nil
}

// configure makes the registry have t's settings, and says at which revision it has them,
// as does t's condition then.
func (r *reconciler) configure(ctx context.Context, m *memory, t *v1alpha1.ScriptTenant, settings script.TenantSettings) (has string, err error) {
	// What this generation says was in the registry before: another change is somebody
	// else's. Ready would not tell once the registry was away.
	was := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionConfigured)
	settled := was != nil && was.Status == metav1.ConditionTrue && was.ObservedGeneration == t.Generation
	cur, err := r.registry.Tenant(ctx, t.Name)
	if err == nil && (cur.Revision == 0 || !cur.Settings.Equal(settings)) {
		m.asked = &asked{settings: settings, before: cur, settled: settled}
		caller := m.edit.Caller()
		if settled {
			caller = tracecontext.Context{}
		}
		cur, err = r.send(ctx, t, &settings, caller)
	}
	if err != nil {
		return "", err
	}
	if a := m.asked; a != nil && a.settings.Equal(settings) && cur.Revision > a.before.Revision {
		r.tellSet(t, a.before, a.settled)
	}
	m.asked = nil
	has = fmt.Sprintf("the registry has it, at revision %d", cur.Revision)
	r.set(t, v1alpha1.ConditionConfigured, metav1.ConditionTrue, reasonConfigured, has)
	return has, nil
}

// tellSet makes the event of settings that were set.
func (r *reconciler) tellSet(t *v1alpha1.ScriptTenant, before script.Tenant, settled bool) {
	switch {
	case settled && before.Revision == 0:
		r.event(t, corev1.EventTypeWarning, eventRestored, "its settings had been taken away in the registry: they are back")
	case settled:
		r.event(t, corev1.EventTypeWarning, eventRestored, "its settings had been changed in the registry by %s: they are what the spec says again", before.Author)
	default:
		r.event(t, corev1.EventTypeNormal, reasonConfigured, "the registry has its settings")
	}
}

// fault puts into t's conditions what somebody has to change.
func (r *reconciler) fault(t *v1alpha1.ScriptTenant, reason string, err error) {
	r.set(t, v1alpha1.ConditionReady, metav1.ConditionFalse, reason, err.Error())
	r.set(t, v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, err.Error())
	meta.RemoveStatusCondition(&t.Status.Conditions, v1alpha1.ConditionReconciling)
}

// tellFault makes an event of what somebody has to change when that is new.
func (r *reconciler) tellFault(told *v1alpha1.ScriptTenantStatus, t *v1alpha1.ScriptTenant) {
	is := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionStalled)
	if is == nil {
		return
	}
	was := meta.FindStatusCondition(told.Conditions, v1alpha1.ConditionStalled)
	if was == nil || was.Message != is.Message {
		r.event(t, corev1.EventTypeWarning, reasonRefused, "%s", is.Message)
	}
}

func (r *reconciler) set(t *v1alpha1.ScriptTenant, condition string, is metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&t.Status.Conditions, metav1.Condition{
		Type: condition, Status: is, Reason: reason, Message: spec.Cut(message), ObservedGeneration: t.Generation,
	})
}

func (r *reconciler) event(t *v1alpha1.ScriptTenant, kind, reason, format string, args ...any) {
	r.events.Eventf(t, nil, kind, reason, "Reconcile", "%s", spec.Cut(fmt.Sprintf(format, args...)))
}

// report writes t's status, unless the API server is known to have it, and tells of it then.
func (r *reconciler) report(ctx context.Context, m *memory, t *v1alpha1.ScriptTenant) error {
	t.Status.ObservedGeneration = t.Generation
	if m.untold == nil {
		if equality.Semantic.DeepEqual(m.status, &t.Status) {
			return nil
		}
		m.untold = m.status
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	// The patch has the whole status, since it may not be known what the API server has: it is
	// made from one that differs in every field.
	unlike := t.DeepCopy()
	unlike.Status = v1alpha1.ScriptTenantStatus{ObservedGeneration: -1, Scripts: -1}
	if err := r.client.Status().Patch(ctx, t, client.MergeFrom(unlike)); err != nil {
		return err
	}
	told := m.untold
	m.status, m.version, m.untold = t.Status.DeepCopy(), t.ResourceVersion, nil
	r.tellFault(told, t)
	return nil
}

// scripts counts the tenant's Scripts and LuaScripts: those of namespaces that may act for it. Users
// are those and what may have been published before their namespace lost the right.
func (r *reconciler) scripts(ctx context.Context, t *v1alpha1.ScriptTenant) (count int, users users, err error) {
	var all []*v1alpha1.LuaScript // with the sources of all of them: nothing of it is changed
	for _, kind := range kinds.All() {
		list, err := kind.List(ctx, r.client, client.MatchingFields{tenantIndex: t.Name}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return 0, users, fmt.Errorf("listing the %ss of %s: %w", kind, t.Name, err)
		}
		all = append(all, list...)
	}
	allowed := make(map[string]bool) // by namespace
	for _, ls := range all {
		may, known := allowed[ls.Namespace]
		if !known {
			if may, err = allows(ctx, r.client, t, ls.Namespace); err != nil && !apierrors.IsNotFound(err) {
				return 0, users, err
			}
			allowed[ls.Namespace] = may
		}
		if may {
			count++
		}
		if may || isHeld(ls) {
			users.add(ls)
		}
	}
	return count, users, nil
}

// users are the objects that use a tenant.
type users struct {
	count    int
	examples []string // some of their names
}

func (u *users) add(ls *v1alpha1.LuaScript) {
	const most = 3
	if u.count++; len(u.examples) < most {
		u.examples = append(u.examples, ls.Namespace+"/"+ls.Name)
	}
}

func (u *users) String() string {
	s := strings.Join(u.examples, ", ")
	if more := u.count - len(u.examples); more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}
