package agentd

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
)

// TestMetricsAreGranted: a peer sees the metrics of its tenants, and those of none.
func TestMetricsAreGranted(t *testing.T) {
	reg := prometheus.NewRegistry()
	counters := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "counter"}, []string{"tenant", "counter"})
	others := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "other"}, []string{"outcome"})
	scripts := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "script"}, []string{"tenant", "script"})
	reg.MustRegister(counters, others, scripts)
	scripts.WithLabelValues("acme", "route").Set(1)
	scripts.WithLabelValues("shop", "cart").Set(1)
	scripts.WithLabelValues("other", "route").Set(1)
	scripts.WithLabelValues("other", "other").Set(1) // of all tenants
	counters.WithLabelValues("acme", "orders").Set(1)
	counters.WithLabelValues("shop", "orders").Set(2)
	others.WithLabelValues("OK").Set(3)
	access, err := gateway.ParseAccess([]string{"uid:1=acme", "uid:2=*", "uid:4=other"})
	if err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[uint32][]string{
		1: {"counter acme", "other OK", "script acme"},
		2: {"counter acme", "counter shop", "other OK", "script acme", "script other", "script other", "script shop"},
		3: {"other OK"},
		4: {"other OK", "script other"},
	} {
		families, err := granted(reg, access.GrantTo(gateway.Peer{UID: uid, GID: 9})).Gather()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range families {
			for _, m := range f.GetMetric() {
				got = append(got, fmt.Sprintf("%s %s", f.GetName(), m.GetLabel()[len(m.GetLabel())-1].GetValue()))
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("uid %d sees %q, want %q", uid, got, want)
		}
	}
}

// TestAdminMetrics: nobody knows who asks on the admin listener, so it shows the tenants that it is told to.
func TestAdminMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	calls := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "calls"}, []string{"tenant"})
	reg.MustRegister(calls)
	calls.WithLabelValues("acme").Set(1)
	calls.WithLabelValues("shop").Set(1)
	for _, tt := range []struct {
		rule    string
		tenants []string
		want    int
	}{
		{"uid:1=*", nil, 0},
		{"uid:1=*", []string{"*"}, 2},
		{"uid:1=*", []string{"ac*"}, 1},
		{"*", nil, 2},
	} {
		access, err := gateway.ParseAccess([]string{tt.rule})
		if err != nil {
			t.Fatal(err)
		}
		shown, err := adminMetrics(Config{Metrics: reg, MetricsTenants: tt.tenants}, access)
		if err != nil {
			t.Fatal(err)
		}
		families, err := shown.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, f := range families {
			got += len(f.GetMetric())
		}
		if got != tt.want {
			t.Errorf("--allow %s --metrics-tenants %q shows %d tenants, want %d", tt.rule, tt.tenants, got, tt.want)
		}
	}
	access, err := gateway.ParseAccess([]string{"uid:1=*"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := adminMetrics(Config{Metrics: reg, MetricsTenants: []string{"Acme!"}}, access); err == nil || !strings.Contains(err.Error(), "--metrics-tenants") {
		t.Errorf("a tenant that cannot be: %v", err)
	}
}
