package tenancy

import (
	"context"
	"maps"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
)

// tenantIndex is the index of objects by their tenant.
const tenantIndex = "scripttenant"

// countPause is how long a ScriptTenant waits to count its scripts anew, so that
// a thousand that come at once are not counted a thousand times.
const countPause = time.Second

type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// ofScripts wakes the tenant of an object that comes, goes, or is about to be published.
func ofScripts() handler.EventHandler {
	wake := func(o client.Object, q queue) {
		q.AddAfter(requestFor(kinds.Of(o).Spec.TenantID), countPause)
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { wake(e.Object, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { wake(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if isHeld(kinds.Of(e.ObjectOld)) != isHeld(kinds.Of(e.ObjectNew)) {
				wake(e.ObjectNew, q)
			}
		},
	}
}

// ofNamespaces wakes all tenants that select namespaces by their labels when those
// change. What comes and goes with a namespace are its objects, which wake theirs.
func ofNamespaces(r client.Reader) handler.EventHandler {
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) {
				return
			}
			var tenants v1alpha1.ScriptTenantList
			if err := r.List(ctx, &tenants); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "A namespace's labels have changed, and the ScriptTenants that select by them cannot be listed; they are counted anew within a minute")
				return
			}
			for i := range tenants.Items {
				if tenants.Items[i].Spec.NamespaceSelector != nil {
					q.AddAfter(requestFor(tenants.Items[i].Name), countPause)
				}
			}
		},
	}
}

func requestFor(tenant string) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKey{Name: tenant}}
}

// isHeld reports whether the registry may have the object's script, and agents with it:
// active, under test, or given up. The finalizer comes before the first publish, of which the
// status tells later, or not at all while the registry's answer is lost; and the status is
// there when somebody took the finalizer away.
func isHeld(ls *v1alpha1.LuaScript) bool {
	return ls.Status.Revision > 0 || controllerutil.ContainsFinalizer(ls, v1alpha1.Finalizer)
}
