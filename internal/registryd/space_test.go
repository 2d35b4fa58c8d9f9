package registryd_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/embedded/etcdtest"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestEtcdIsNearlyFull: registries stop before etcd's quota, so that it has room for leases,
// rollbacks and deletes.
func TestEtcdIsNearlyFull(t *testing.T) {
	const quota = 8 << 20
	small, err := embedded.StartEtcd(t.Context(), embedded.EtcdConfig{Dir: t.TempDir(), QuotaBytes: quota})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(small.Stop)
	cfg := config(t, startNATS(t, 0).URL())
	cfg.EtcdEndpoints = []string{small.Endpoint()}
	found(t, cfg)
	d, c := start(t, cfg)
	c.publish(t, "route", "return 1")
	c.publish(t, "route", "return 2")

	// Somebody else fills it.
	other := etcdtest.Client(t, small.Endpoint())
	for i := 0; ; {
		status, err := other.Status(t.Context(), small.Endpoint())
		if err != nil {
			t.Fatal(err)
		}
		left := quota*92/100 - status.DbSize
		if left <= 0 {
			break
		}
		const size = 16 << 10
		for range 1 + left/size/3 { // the size that etcd says is up to 100 ms old
			i++
			if _, err := other.Put(t.Context(), fmt.Sprint("/other/", i), strings.Repeat("x", size)); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-time.After(150 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the test ends")
		}
	}
	eventually(t, "degraded", func() bool {
		degraded := d.Ready(t.Context()).Degraded
		return len(degraded) == 1 && strings.Contains(degraded[0], "defragment")
	})
	a := newAgent(t, cfg.NATS[0], subjects(cfg))
	a.joins(t, c)
	a.report(t, &eventv1.Status{Fleet: found(t, cfg), Agent: "n1", Incarnation: "1", Sequence: 1})
	eventually(t, "an agent is known", func() bool {
		agents, err := c.ListAgents(t.Context(), &registryv1.ListAgentsRequest{})
		return err == nil && len(agents.GetAgents()) == 1
	})
	_, err = c.Publish(t.Context(), &registryv1.PublishRequest{Tenant: "acme", Author: "ann", Name: "route", Source: []byte("return 3")})
	if err := wire.FromStatus(err); script.KindOf(err) != script.Limit || !strings.Contains(err.Error(), fmt.Sprint("of ", quota)) {
		t.Errorf("publish: %v", err)
	}
	if _, err := c.PutValue(t.Context(), &registryv1.PutValueRequest{Tenant: "acme", Key: "k", Content: []byte("x"), Author: "ann"}); script.KindOf(wire.FromStatus(err)) != script.Limit {
		t.Errorf("put a value: %v", err)
	}
	if _, err := c.Rollback(t.Context(), &registryv1.RollbackRequest{Tenant: "acme", Name: "route", Author: "ann"}); err != nil {
		t.Errorf("roll back: %v", err)
	}
	if _, err := c.Delete(t.Context(), &registryv1.DeleteRequest{Tenant: "acme", Name: "route", Author: "ann"}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if resp, err := other.Get(t.Context(), cfg.EtcdPrefix+"/fleet/agents/", clientv3.WithPrefix()); err != nil || len(resp.Kvs) != 0 {
		t.Errorf("etcd has %v of an agent, %v", resp, err)
	}
}
