package operatord

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// hanging is a registry that takes what is asked and never answers.
type hanging struct{}

func (hanging) Get(ctx context.Context, _ script.Name) (script.Release, error) {
	return script.Release{}, silence(ctx)
}

func (hanging) Source(ctx context.Context, _ script.Ref) (script.Edition, error) {
	return script.Edition{}, silence(ctx)
}

func (hanging) Publish(ctx context.Context, _ registryclient.PublishRequest) (registryclient.Published, error) {
	return registryclient.Published{}, silence(ctx)
}

func (hanging) Pin(ctx context.Context, _ script.Name, _ uint64, _ registryclient.Write) (script.Release, bool, error) {
	return script.Release{}, false, silence(ctx)
}

func (hanging) LiftHold(ctx context.Context, _ script.Name, _ registryclient.Write) (script.Release, bool, error) {
	return script.Release{}, false, silence(ctx)
}

func (hanging) Delete(ctx context.Context, _ script.Name, _ registryclient.Write) (script.Release, error) {
	return script.Release{}, silence(ctx)
}

func (hanging) Tenant(ctx context.Context, _ string) (script.Tenant, error) {
	return script.Tenant{}, silence(ctx)
}

func (hanging) SetTenant(ctx context.Context, _ string, _ *script.TenantSettings, _ registryclient.DataWrite) (script.Tenant, bool, error) {
	return script.Tenant{}, false, silence(ctx)
}

func silence(ctx context.Context) error {
	<-ctx.Done()
	return script.Errorf(script.Timeout, "", "%w", context.Cause(ctx))
}

// TestRequestsAreBounded: a reconciliation that asks twice has time left to tell of it.
func TestRequestsAreBounded(t *testing.T) {
	r := newRegistry(hanging{})
	for request, ask := range map[string]func(context.Context) error{
		"get":     func(ctx context.Context) error { _, err := r.Get(ctx, script.Name{}); return err },
		"source":  func(ctx context.Context) error { _, err := r.Source(ctx, script.Ref{}); return err },
		"publish": func(ctx context.Context) error { _, err := r.Publish(ctx, registryclient.PublishRequest{}); return err },
		"pin": func(ctx context.Context) error {
			_, _, err := r.Pin(ctx, script.Name{}, 0, registryclient.Write{})
			return err
		},
		"lift-hold": func(ctx context.Context) error {
			_, _, err := r.LiftHold(ctx, script.Name{}, registryclient.Write{})
			return err
		},
		"delete": func(ctx context.Context) error {
			_, err := r.Delete(ctx, script.Name{}, registryclient.Write{})
			return err
		},
		"tenant": func(ctx context.Context) error { _, err := r.Tenant(ctx, "acme"); return err },
		"set-tenant": func(ctx context.Context) error {
			_, _, err := r.SetTenant(ctx, "acme", nil, registryclient.DataWrite{})
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			began := time.Now()
			err := ask(ctx)
			if script.KindOf(err) != script.Timeout || time.Since(began) > 8*time.Second || ctx.Err() != nil {
				t.Errorf("%s: after %v: %v", request, time.Since(began), err)
			}
			if n := counted(t, r, request); n != 1 {
				t.Errorf("%s was counted %v times", request, n)
			}
		})
	}
}

// counted returns how many requests timed out.
func counted(t *testing.T, r *registry, request string) (n float64) {
	t.Helper()
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(r.requests)
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range families[0].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["request"] == request && labels["outcome"] == string(script.Timeout) {
			n += m.GetCounter().GetValue()
		}
	}
	return n
}
