package controller

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/fleet"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
	"github.com/scriptorium-dev/scriptorium/operator/tenancy"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The fields by which the cache finds objects.
const (
	byScript = "scriptorium.dev/script" // tenant/name
	byTenant = "scriptorium.dev/tenant"
)

// reconcileTimeout bounds one reconciliation: a registry or an API server that does not
// answer holds up one worker no longer.
//
// It leaves time to say so after two requests to the registry, which are bounded on their
// own, and ends before the manager's patience with those that stop.
const reconcileTimeout = 20 * time.Second

// Setup adds the controllers of Scripts and of LuaScripts to the manager. cfg.Fleet is not started here.
func Setup(mgr ctrl.Manager, cfg Config) error {
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return fmt.Errorf("register the metrics of scripts: %w", err)
	}
	if cfg.Concurrency == 0 {
		cfg.Concurrency = DefaultConcurrency
	}
	for _, kind := range kinds.All() {
		if err := setup(mgr, kind, cfg, m); err != nil {
			return fmt.Errorf("set up the controller of %ss: %w", kind, err)
		}
	}
	return nil
}

// setup adds the controller of one kind.
func setup(mgr ctrl.Manager, kind kinds.Kind, cfg Config, m *metrics) error {
	r := &Reconciler{
		kind: kind, client: mgr.GetClient(), events: mgr.GetEventRecorder("scriptorium-operator"),
		registry: cfg.Registry, fleet: cfg.Fleet, wait: cfg.DeleteWait, log: cfg.Log, metrics: m, tracer: cfg.Tracer,
	}
	if r.tracer == nil {
		r.tracer = noop.Tracer{}
	}
	if err := index(mgr.GetFieldIndexer(), kind); err != nil {
		return fmt.Errorf("index them: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(kind.Lower()).
		// All changes wake: most reconciliations cost nothing, and what others did to the
		// status is put right.
		For(kind.New(), builder.WithPredicates(r.arrivals.watch())).
		Watches(&v1alpha1.ScriptTenant{}, handler.EnqueueRequestsFromMapFunc(r.ofTenant), builder.WithPredicates(tenantChanged)).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.ofNamespace), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(source.Func(r.ofFleet)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: cfg.Concurrency,
			// Who does not lead is ready to: its caches and its queue are full.
			EnableWarmup:          new(true),
			ReconciliationTimeout: reconcileTimeout,
			// Of errors of the API server; those of the registry have a pace of their own.
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](50*time.Millisecond, maxRetry),
		}).
		Complete(r)
}

func index(fields client.FieldIndexer, kind kinds.Kind) error {
	ctx := context.Background() // the indexer only takes note of the function
	scriptOf := func(o client.Object) []string {
		ls := kinds.Of(o)
		return []string{script.Name{Tenant: ls.Spec.TenantID, Script: ls.Name}.String()}
	}
	if err := fields.IndexField(ctx, kind.New(), byScript, scriptOf); err != nil {
		return err
	}
	return fields.IndexField(ctx, kind.New(), byTenant, func(o client.Object) []string {
		return []string{kinds.Of(o).Spec.TenantID}
	})
}

// tenantChanged lets pass what may change the answer to an object: the namespaces that may
// act for the tenant, and new settings of it in the registry.
var tenantChanged = predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1alpha1.ScriptTenant), e.ObjectNew.(*v1alpha1.ScriptTenant)
		return before.Status.ObservedGeneration != after.Status.ObservedGeneration ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
			tenancy.Settled(before) != tenancy.Settled(after) ||
			readiness(before) != readiness(after)
	},
})

// readiness is what a ScriptTenant's condition Ready says.
func readiness(t *v1alpha1.ScriptTenant) string {
	c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return ""
	}
	return string(c.Status) + c.Reason
}

// ofTenant returns the objects of a ScriptTenant.
func (r *Reconciler) ofTenant(ctx context.Context, o client.Object) []reconcile.Request {
	return r.find(ctx, client.MatchingFields{byTenant: o.GetName()})
}

// ofNamespace returns the objects in a namespace.
func (r *Reconciler) ofNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	return r.find(ctx, client.InNamespace(o.GetName()))
}

// ofFleet wakes objects when the fleet's watch has news of their scripts.
func (r *Reconciler) ofFleet(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.fleet.Subscribe(func(c fleet.Changed) {
		for _, name := range c.Names {
			for _, req := range r.find(ctx, client.MatchingFields{byScript: name.String()}) {
				queue.Add(req)
			}
		}
		if c.All {
			addBehind(queue, r.find(ctx))
		}
	})
	return nil
}

// addBehind adds requests behind those for which somebody may wait.
func addBehind(queue workqueue.TypedRateLimitingInterface[reconcile.Request], requests []reconcile.Request) {
	if q, ok := queue.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		q.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, requests...)
		return
	}
	for _, req := range requests {
		queue.Add(req)
	}
}

// find returns requests for the objects that the cache has.
func (r *Reconciler) find(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	list, err := r.kind.List(ctx, r.client, append(options, client.UnsafeDisableDeepCopy)...)
	if err != nil {
		if ctx.Err() == nil {
			r.log.Error("the objects cannot be listed from the cache", "kind", r.kind, "error", err)
		}
		return nil
	}
	requests := make([]reconcile.Request, len(list))
	for i, ls := range list {
		requests[i].NamespacedName = types.NamespacedName{Namespace: ls.Namespace, Name: ls.Name}
	}
	return requests
}
