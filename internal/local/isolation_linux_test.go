package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/process"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestMain is the process of a tenant, or of another user, when it is asked to be.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "ask" {
		ask(os.Args[2], os.Args[3:]...)
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		cmd := agentd.WorkerCommand()
		cmd.SetArgs([]string{})
		process.Main(cmd)
	}
	os.Exit(m.Run())
}

// TestATenantIsWalledOff: its settings say so, and from then on its scripts run in a
// process of their own on every node, over sockets of its own and over the shared ones.
// What is converged is what these run.
func TestATenantIsWalledOff(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	s.converge(s.publish(1).Release.Revision)
	data := registryclient.DataWrite{Author: "test"}
	settings := &script.TenantSettings{Isolation: script.IsolationProcess, MemoryBytes: 128 << 20}
	if _, _, err := s.registry.SetTenant(ctx, "acme", settings, data); err != nil {
		t.Fatal(err)
	}
	own := make([]*agentclient.Client, 0, agents)
	for i := range agents {
		socket := filepath.Join(s.AgentDir(i+1), "tenants", "acme", "grpc.sock")
		client, err := agentclient.New("unix:" + socket)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		own = append(own, client)
		if !eventually(ctx, func() bool { _, err := os.Stat(socket); return err == nil }) {
			t.Fatalf("%s is not there", socket)
		}
		// The first process starts cold, which may take longer than a call waits.
		if !eventually(ctx, func() bool { _, err := client.Call(ctx, name.String()); return err == nil }) {
			t.Fatalf("nothing is answered over %s", socket)
		}
	}
	for n := 2; n < 6; n++ {
		s.converge(s.publish(n).Release.Revision)
		for i := range agents {
			for where, client := range map[string]*agentclient.Client{"its own": own[i], "the shared": s.agents[i]} {
				got, err := client.Call(ctx, name.String())
				if err != nil || string(got.Values[0]) != answer(n) {
					t.Errorf("agent %d over %s socket, once edition %d is converged: %v, %v", i+1, where, n, got, err)
				}
			}
		}
	}
	if _, err := own[0].Call(ctx, "shop/cart"); script.KindOf(err) != script.NotFound {
		t.Errorf("another tenant's script over its socket: %v", err)
	}

	reads := script.Name{Tenant: "acme", Script: "reads"}
	if _, err := s.registry.Publish(ctx, registryclient.PublishRequest{
		Name: reads, Source: []byte(`function handle() log.info("read") return kv.get("flag") end`), Write: registryclient.Write{Author: "test"},
	}); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		want := fmt.Sprintf("value %d", n)
		if _, _, err := s.registry.PutValue(ctx, script.ValueKey{Tenant: "acme", Key: "flag"}, []byte(want), data); err != nil {
			t.Fatal(err)
		}
		for i := range agents {
			var got string
			if !eventually(ctx, func() bool {
				result, err := own[i].Call(ctx, reads.String())
				return err == nil && result.Decode(0, &got) == nil && got == want
			}) {
				t.Errorf("agent %d reads %q, want %q", i+1, got, want)
			}
		}
	}

	if _, _, err := s.registry.SetTenant(ctx, "acme", nil, data); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(s.AgentDir(1), "tenants", "acme", "grpc.sock")
	if !eventually(ctx, func() bool { _, err := os.Stat(socket); return err != nil }) {
		t.Error("its own socket is still there")
	}
	if got, err := s.agents[0].Call(ctx, name.String()); err != nil || string(got.Values[0]) != answer(5) {
		t.Errorf("shared again: %v, %v", got, err)
	}
}

// eventually waits until something is so, or ctx is done.
func eventually(ctx context.Context, so func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
