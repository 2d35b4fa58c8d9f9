package tenancy

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
)

// remove takes t's settings from the registry and lets it go. They stay as long as
// there are scripts of the tenant: those would lose their bounds, and the process
// that they have to themselves, while they run.
func (r *reconciler) remove(ctx context.Context, m *memory, t *v1alpha1.ScriptTenant) (ctrl.Result, error) {
	if m.gone || !controllerutil.ContainsFinalizer(t, v1alpha1.Finalizer) {
		m.sayFarewell()
		return ctrl.Result{}, nil
	}
	if t.Annotations[v1alpha1.AbandonAnnotation] == "true" {
		return r.abandon(ctx, m, t, "its annotation "+v1alpha1.AbandonAnnotation+" says so")
	}
	count, users, err := r.scripts(ctx, t)
	if err != nil {
		return ctrl.Result{}, err
	}
	t.Status.Scripts = int32(count) //nolint:gosec // objects of one cluster
	if users.count > 0 {
		return r.protect(ctx, m, t, &users)
	}
	if _, err := r.send(ctx, t, nil, m.edit.Caller()); err != nil {
		return r.retain(ctx, m, t, err)
	}
	return r.release(ctx, m, t, func() {
		r.event(t, corev1.EventTypeNormal, eventDeleted, "the registry no longer has its settings")
	})
}

// protect keeps t, and its settings what they are, because agents may have scripts of it.
func (r *reconciler) protect(ctx context.Context, m *memory, t *v1alpha1.ScriptTenant, users *users) (ctrl.Result, error) {
	// The wait for the registry begins when they are gone, though it failed before. Until then
	// it has the settings, though they had been taken away.
	m.stuck, m.farewell = time.Time{}, nil
	meta.RemoveStatusCondition(&t.Status.Conditions, v1alpha1.ConditionReconciling)
	meta.RemoveStatusCondition(&t.Status.Conditions, v1alpha1.ConditionStalled)
	why := fmt.Sprintf("being deleted, when the tenant's scripts are: %s (or set the annotation %s to \"true\")", users, v1alpha1.AbandonAnnotation)
	settings, failed := spec.TenantSettings(t)
	if failed == nil {
		_, failed = r.configure(ctx, m, t, settings)
	}
	if failed != nil {
		why += "; whether they have their bounds until then is not known: " + failed.Error()
	}
	r.set(t, v1alpha1.ConditionReady, metav1.ConditionFalse, reasonInUse, why)
	if err := r.report(ctx, m, t); err != nil {
		return again(err)
	}
	if isTemporary(failed) {
		return ctrl.Result{}, failed // the queue asks again, ever more slowly
	}
	// What others do to the settings in the registry wakes nobody, nor does the right that
	// a namespace lost while the ScriptTenants could not be listed.
	return ctrl.Result{RequeueAfter: r.resync}, nil
}

// minTry is how long an operator tries to take settings away before it gives up, however
// long the one before it has: it may have been away together with the registry.
const minTry = 30 * time.Second

// retain keeps t because the registry still has its settings, or gives up if that took
// too long. The time counts from the first attempt that failed, of whichever operator, so
// that one which was away does not give up at once.
func (r *reconciler) retain(ctx context.Context, m *memory, t *v1alpha1.ScriptTenant, failed error) (ctrl.Result, error) {
	now := r.now()
	if m.stuck.IsZero() {
		m.stuck = now
	}
	since, tried := m.stuck, now.Sub(m.stuck)
	if c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionReconciling); c != nil && c.Reason == reasonDeleting {
		since = c.LastTransitionTime.Time
	} else {
		meta.RemoveStatusCondition(&t.Status.Conditions, v1alpha1.ConditionReconciling) // its time is of something else
	}
	left := max(r.deleteWait-now.Sub(since), min(r.deleteWait, minTry)-tried)
	if r.deleteWait > 0 && left <= 0 {
		return r.abandon(ctx, m, t, fmt.Sprintf("the registry did not take them away for %v: %v", r.deleteWait, failed))
	}
	r.set(t, v1alpha1.ConditionReady, metav1.ConditionFalse, reasonDeleting, failed.Error())
	r.set(t, v1alpha1.ConditionReconciling, metav1.ConditionTrue, reasonDeleting, failed.Error())
	meta.RemoveStatusCondition(&t.Status.Conditions, v1alpha1.ConditionStalled)
	if err := r.report(ctx, m, t); err != nil {
		return again(err)
	}
	// Ever more slowly, but not later than the wait is over. The queue knows nothing of that.
	pause := min(max(tried/2, minRetry), maxRetry)
	if r.deleteWait > 0 {
		pause = min(pause, left)
	}
	ctrl.LoggerFrom(ctx).Info("The registry did not take the settings away", "again_in", pause.String(), "error", failed.Error())
	return ctrl.Result{RequeueAfter: pause}, nil
}

// abandon lets t go although the registry may have its settings.
func (r *reconciler) abandon(ctx context.Context, m *memory, t *v1alpha1.ScriptTenant, why string) (ctrl.Result, error) {
	return r.release(ctx, m, t, func() {
		ctrl.LoggerFrom(ctx).Info("The ScriptTenant goes, its settings stay in the registry", "why", why)
		r.event(t, corev1.EventTypeWarning, eventAbandoned, "its settings may stay in the registry: %s", why)
	})
}

// release removes the finalizer: t goes, which farewell tells of. It is kept until the
// finalizer is known to be gone: the answer may get lost, and the event is all that is left.
func (r *reconciler) release(ctx context.Context, m *memory, t *v1alpha1.ScriptTenant, farewell func()) (ctrl.Result, error) {
	m.farewell = farewell
	before := t.DeepCopy()
	controllerutil.RemoveFinalizer(t, v1alpha1.Finalizer)
	if err := r.patch(ctx, before, t); client.IgnoreNotFound(err) != nil {
		return again(err)
	}
	m.gone = true
	m.sayFarewell()
	return ctrl.Result{}, nil
}
