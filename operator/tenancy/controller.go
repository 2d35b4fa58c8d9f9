package tenancy

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Registry keeps the settings of tenants: a registryclient.Client. Its errors are
// *script.Error. Each request has to be bounded, by a few seconds: a registry that hangs
// holds up its ScriptTenant, and the end of its removal, for that long.
type Registry interface {
	// Tenant returns the settings: the zero ones, at revision 0, if nothing was set.
	Tenant(ctx context.Context, tenant string) (script.Tenant, error)
	// SetTenant replaces the settings, or takes them away if they are nil.
	SetTenant(ctx context.Context, tenant string, settings *script.TenantSettings, w registryclient.DataWrite) (script.Tenant, bool, error)
}

// DefaultResync is how often the registry is asked what it has unless that is set. It
// tells nobody of a tenant's settings that were changed, so that what was changed
// behind a ScriptTenant's back is put right within this time.
const DefaultResync = time.Minute

const (
	concurrency = 4 // ScriptTenants that are reconciled at once: they are few
	// The times between attempts, which double.
	minRetry = 250 * time.Millisecond
	maxRetry = 30 * time.Second
	// writeTimeout bounds one write to the API server. It is time of its own, which no
	// registry can use up.
	writeTimeout = 5 * time.Second
)

// Config of the ScriptTenant controller.
type Config struct {
	Registry Registry
	// DeleteWait is how long the removal of a ScriptTenant waits for a registry that does
	// not answer, before it goes and the settings stay; 0 for ever.
	DeleteWait time.Duration
	// Resync is how often the registry is asked what it has; DefaultResync if 0.
	Resync time.Duration
	// Tracer makes the spans of changes in the registry; nil for none.
	Tracer trace.Tracer
}

// +kubebuilder:rbac:groups=scriptorium.dev,resources=scripttenants,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=scriptorium.dev,resources=scripttenants/status,verbs=patch
// +kubebuilder:rbac:groups=scriptorium.dev,resources=scripts;luascripts,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup adds the ScriptTenant controller to mgr. It runs on the leader.
func Setup(mgr ctrl.Manager, cfg Config) error {
	if cfg.Resync <= 0 {
		cfg.Resync = DefaultResync
	}
	for _, kind := range kinds.All() {
		err := mgr.GetFieldIndexer().IndexField(context.Background(), kind.New(), tenantIndex, func(o client.Object) []string {
			return []string{kinds.Of(o).Spec.TenantID}
		})
		if err != nil {
			return fmt.Errorf("indexing %ss by their tenant: %w", kind, err)
		}
	}
	if cfg.Tracer == nil {
		cfg.Tracer = noop.Tracer{}
	}
	r := &reconciler{
		client: mgr.GetClient(), registry: cfg.Registry, deleteWait: cfg.DeleteWait, resync: cfg.Resync,
		events: mgr.GetEventRecorder("scriptorium-operator"), now: time.Now, tracer: cfg.Tracer,
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("scripttenant").
		For(&v1alpha1.ScriptTenant{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		WatchesMetadata(namespaceMetadata(), ofNamespaces(mgr.GetClient())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrency,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](minRetry, maxRetry),
		})
	for _, kind := range kinds.All() {
		b = b.Watches(kind.New(), ofScripts())
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("setting up the ScriptTenant controller: %w", err)
	}
	return nil
}
