package operatord

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/controller"
	"github.com/scriptorium-dev/scriptorium/operator/tenancy"
	"github.com/scriptorium-dev/scriptorium/script"
)

// requestTimeout bounds each request to the registry. A reconciliation may take longer
// than two, so that it can say in a status that the registry does not answer.
const requestTimeout = 5 * time.Second

// asked is what the controllers ask of the registry.
type asked interface {
	controller.Registry
	tenancy.Registry
}

// registry bounds and counts the requests to one.
type registry struct {
	next     asked
	requests *prometheus.CounterVec // by request, outcome
}

func newRegistry(next asked) *registry {
	return &registry{next: next, requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "scriptorium", Subsystem: "operator", Name: "registry_requests_total",
		Help: "Requests to the registry, by what was asked and what it came to: ok, or the kind of the error.",
	}, []string{"request", "outcome"})}
}

// ask makes one request.
func (r *registry) ask(ctx context.Context, request string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, fmt.Errorf("it was given %v", requestTimeout))
	defer cancel()
	err := f(ctx)
	outcome := "ok"
	if err != nil {
		outcome = string(script.KindOf(err))
	}
	r.requests.WithLabelValues(request, outcome).Inc()
	return err
}

// Get implements controller.Registry.
func (r *registry) Get(ctx context.Context, name script.Name) (release script.Release, err error) {
	err = r.ask(ctx, "get", func(ctx context.Context) (err error) {
		release, err = r.next.Get(ctx, name)
		return err
	})
	return release, err
}

// Source implements controller.Registry.
func (r *registry) Source(ctx context.Context, ref script.Ref) (edition script.Edition, err error) {
	err = r.ask(ctx, "source", func(ctx context.Context) (err error) {
		edition, err = r.next.Source(ctx, ref)
		return err
	})
	return edition, err
}

// Publish implements controller.Registry.
func (r *registry) Publish(ctx context.Context, p registryclient.PublishRequest) (published registryclient.Published, err error) {
	err = r.ask(ctx, "publish", func(ctx context.Context) (err error) {
		published, err = r.next.Publish(ctx, p)
		return err
	})
	return published, err
}

// Pin implements controller.Registry.
func (r *registry) Pin(ctx context.Context, name script.Name, version uint64, w registryclient.Write) (release script.Release, changed bool, err error) {
	err = r.ask(ctx, "pin", func(ctx context.Context) (err error) {
		release, changed, err = r.next.Pin(ctx, name, version, w)
		return err
	})
	return release, changed, err
}

// LiftHold implements controller.Registry.
func (r *registry) LiftHold(ctx context.Context, name script.Name, w registryclient.Write) (release script.Release, changed bool, err error) {
	err = r.ask(ctx, "lift-hold", func(ctx context.Context) (err error) {
		release, changed, err = r.next.LiftHold(ctx, name, w)
		return err
	})
	return release, changed, err
}

// Delete implements controller.Registry.
func (r *registry) Delete(ctx context.Context, name script.Name, w registryclient.Write) (release script.Release, err error) {
	err = r.ask(ctx, "delete", func(ctx context.Context) (err error) {
		release, err = r.next.Delete(ctx, name, w)
		return err
	})
	return release, err
}

// Tenant implements tenancy.Registry.
func (r *registry) Tenant(ctx context.Context, tenant string) (t script.Tenant, err error) {
	err = r.ask(ctx, "tenant", func(ctx context.Context) (err error) {
		t, err = r.next.Tenant(ctx, tenant)
		return err
	})
	return t, err
}

// SetTenant implements tenancy.Registry.
func (r *registry) SetTenant(ctx context.Context, tenant string, settings *script.TenantSettings, w registryclient.DataWrite) (t script.Tenant, changed bool, err error) {
	err = r.ask(ctx, "set-tenant", func(ctx context.Context) (err error) {
		t, changed, err = r.next.SetTenant(ctx, tenant, settings, w)
		return err
	})
	return t, changed, err
}
