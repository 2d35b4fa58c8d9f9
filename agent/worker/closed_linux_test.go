package worker_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/worker"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestNothingWalledOffRunsInTheAgent: not while the pool is shut down, and not after,
// whatever the settings were before and become.
func TestNothingWalledOffRunsInTheAgent(t *testing.T) {
	acme, shop := walled("acme"), walled("shop")
	w := newWorld(t, func(c *worker.Config) { c.Command = nil }, acme, shop)
	set := func(name string, isolation script.Isolation) {
		tenant := walled(name)
		tenant.Settings.Isolation = isolation
		w.commit([]script.Object{{Tenant: &tenant}})
	}
	for _, name := range []string{"acme", "shop", "late", "free"} {
		w.publish("lua", name+"/route", `function handle() return 1 end`)
	}
	set("shop", script.IsolationShared) // it was walled off, and will be again
	if got := w.answer("shop/route"); got != "1" {
		t.Errorf("shared: %s", got)
	}
	if err := w.pool.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	set("late", script.IsolationProcess)
	set("shop", script.IsolationProcess)
	set("acme", script.IsolationProcess)
	for _, ref := range []string{"acme/route", "late/route", "shop/route", "late", "late/", "late/route@1"} {
		if got, err := w.call(ref); script.KindOf(err) != script.Unavailable {
			t.Errorf("%s: got %s, %v", ref, got, err)
		}
	}
	if got := w.answer("free/route"); got != "1" {
		t.Errorf("another tenant: %s", got)
	}
}

// TestSettingsThatThePoolWasNotTold: nobody runs in the agent whose live settings ask for
// a process, even if the pool knows nothing of it.
func TestSettingsThatThePoolWasNotTold(t *testing.T) {
	w := newWorld(t, func(c *worker.Config) { c.Command = nil })
	w.publish("lua", "acme/route", `function handle() return 1 end`)
	w.tenants.Update([]script.Tenant{walled("acme")}, nil)
	if got, err := w.call("acme/route"); script.KindOf(err) != script.Unavailable || !strings.Contains(err.Error(), "process of its own") {
		t.Errorf("got %s, %v", got, err)
	}
}

// TestAFolderOutlivesTheAgent: a pod that has mounted it finds the next agent's sockets
// there.
func TestAFolderOutlivesTheAgent(t *testing.T) {
	w := newWorld(t, nil, walled("acme"))
	w.publish("lua", "acme/route", `function handle() return 1 end`)
	w.answer("acme/route")
	before, err := os.Stat(filepath.Dir(w.socket("acme", "resp")))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.pool.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(filepath.Dir(w.socket("acme", "resp")))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the folder: %v", err)
	}
	if _, err := os.Stat(w.socket("acme", "resp")); err == nil {
		t.Error("its sockets are still there")
	}
}

// TestSpares: there are as many as tenants that have a process, up to four, and the time
// that they take to serve is what the agent itself measures.
func TestSpares(t *testing.T) {
	w := newWorld(t, nil, walled("acme"), walled("shop"))
	for _, name := range []string{"acme", "shop"} {
		w.publish("lua", name+"/route", `function handle() return 1 end`)
		w.answer(name + "/route")
	}
	const kills = 5
	for range kills {
		w.serving()
		if !w.until(func() bool { return w.metric("scriptorium_agent_worker_spares") == 2 }) {
			t.Fatalf("%v spares for two tenants", w.metric("scriptorium_agent_worker_spares"))
		}
		pids := map[string]int{"acme": w.pid("acme"), "shop": w.pid("shop")}
		for _, pid := range pids { // at once
			kill(t, pid)
		}
		for name, pid := range pids {
			if !w.until(func() bool { return w.pid(name) != pid }) {
				t.Fatalf("%s is not replaced", name)
			}
			w.answer(name + "/route")
		}
	}
	count, sum := w.replacements(2 * kills)
	t.Logf("%v processes were replaced by spares, two at a time: %.1f ms each on average, from the end of one until the next served", count, 1000*sum/count)
}

// replacements waits until so many were measured, and returns their number and how many
// seconds they took together.
func (w *world) replacements(want float64) (count, sum float64) {
	w.tb.Helper()
	w.until(func() bool {
		count, sum = w.histogram("scriptorium_agent_worker_replace_seconds")
		return count >= want
	})
	if count != want {
		w.tb.Errorf("%v replacements were measured, want %v", count, want)
	}
	return count, sum
}

// histogram returns how many values one has, and their sum.
func (w *world) histogram(name string) (count, sum float64) {
	families, err := w.metrics.Gather()
	if err != nil {
		w.tb.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				count += float64(m.GetHistogram().GetSampleCount())
				sum += m.GetHistogram().GetSampleSum()
			}
		}
	}
	return count, sum
}

// kill kills a process as an administrator does.
func kill(tb testing.TB, pid int) {
	tb.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		tb.Fatal(err)
	}
}
