package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestALaggingProcessIsNotConverged: while the processes of a tenant do not take a change, its
// status says so. The changes of others converge meanwhile.
func TestALaggingProcessIsNotConverged(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	settings := &script.TenantSettings{Isolation: script.IsolationProcess, MemoryBytes: 128 << 20}
	if _, _, err := s.registry.SetTenant(ctx, name.Tenant, settings, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	s.converge(s.publish(1).Release.Revision)
	own := make([]*agentclient.Client, 0, agents)
	for i := range agents {
		client, err := agentclient.New("unix:" + filepath.Join(s.AgentDir(i+1), "tenants", name.Tenant, "grpc.sock"))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		own = append(own, client)
		if !eventually(ctx, func() bool { _, err := client.Call(ctx, name.String()); return err == nil }) {
			t.Fatalf("agent %d does not answer over the tenant's own socket", i+1)
		}
	}

	freeze(t, agents)
	defer thaw(t)
	revision := s.publish(2).Release.Revision
	s.status(func(st *registryclient.ScriptStatus) bool {
		if st.Release.Revision == revision && st.Converged {
			t.Fatalf("while the processes lag: %+v", st)
		}
		freeze(t, 0) // in time, the agents kill these and start others
		return st.Lagging == agents && st.Active == 0 && st.Failed == 0 && st.SlowestAgent == "agent-1"
	})
	cart := script.Name{Tenant: "shop", Script: "cart"}
	other, err := s.registry.Publish(ctx, registryclient.PublishRequest{Name: cart, Source: edition(1), Write: registryclient.Write{Author: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	s.convergeOf(cart, other.Release.Revision)
	status, err := s.registry.Status(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	// By now an agent may have replaced its process: then it is active, and no longer lags.
	if one := status.Scripts[0]; one.Release.Revision != revision || one.Failed != 0 || one.Active+one.Lagging != agents || one.Converged != (one.Active == agents) {
		t.Errorf("while the processes lag and another change converges: %+v", one)
	}

	thaw(t)
	s.converge(revision)
	for i, client := range own {
		got, err := client.Call(ctx, name.String())
		if err != nil || string(got.Values[0]) != answer(2) {
			t.Errorf("agent %d, once edition 2 is converged: %v, %v", i+1, got, err)
		}
	}
}

// workers returns the processes of tenants, and the spare ones.
func workers(t *testing.T) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := afterName(stat)
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) && strings.Contains(string(line), "\x00worker") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// freeze stops the processes of tenants, of which there must be so many at least. A process has stopped when each of its threads has:
// until then, one of them may answer a call.
func freeze(t *testing.T, least int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pids := workers(t)
	if len(pids) < least {
		t.Fatalf("%d processes of tenants, want one on each of %d agents", len(pids), least)
	}
	signal(t, pids, syscall.SIGSTOP)
	for _, pid := range pids {
		if !eventually(ctx, func() bool { return stopped(t, pid) }) {
			t.Fatalf("process %d does not stop", pid)
		}
	}
}

func thaw(t *testing.T) {
	t.Helper()
	signal(t, workers(t), syscall.SIGCONT)
}

// stopped reports whether no thread of the process runs.
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range threads {
		if stat, err := os.ReadFile(path); err == nil && !strings.Contains("TtZX", afterName(stat)[0]) {
			return false
		}
	}
	return true
}

// afterName returns the fields of a stat file after the name, which is in parentheses and may have any characters.
func afterName(stat []byte) []string {
	return strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
}

func signal(t *testing.T, pids []int, signal syscall.Signal) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, signal); err != nil {
			t.Logf("signal %d: %v", pid, err)
		}
	}
}
