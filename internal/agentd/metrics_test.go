package agentd

import (
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
)

// TestMetricsAreGranted: a peer sees the metrics of its tenants, and those of none.
func TestMetricsAreGranted(t *testing.T) {
	reg := prometheus.NewRegistry()
	counters := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "counter"}, []string{"tenant", "counter"})
	others := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "other"}, []string{"outcome"})
	reg.MustRegister(counters, others)
	counters.WithLabelValues("acme", "orders").Set(1)
	counters.WithLabelValues("shop", "orders").Set(2)
	others.WithLabelValues("OK").Set(3)
	access, err := gateway.ParseAccess([]string{"uid:1=acme", "uid:2=*"})
	if err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[uint32][]string{
		1: {"counter acme", "other OK"},
		2: {"counter acme", "counter shop", "other OK"},
		3: {"other OK"},
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
