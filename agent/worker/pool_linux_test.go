package worker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/worker"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestATenantInAProcess(t *testing.T) {
	w := newWorld(t, nil, walled("acme"))
	w.publish("lua", "acme/route", `function handle(a) return "one " .. a end`, `function handle(a) return "two " .. a end`)
	w.publish("lua", "shop/cart", `function handle(a) return "cart " .. a end`)
	for ref, want := range map[string]string{
		"acme/route": `"two x"`, "acme/route@2": `"two x"`, "acme/route@1": `"one x"`, "shop/cart": `"cart x"`,
	} {
		if got := w.answer(ref, `"x"`); got != want {
			t.Errorf("%s: got %s, want %s", ref, got, want)
		}
	}
	for ref, kind := range map[string]script.Kind{
		"acme/route@7": script.NotFound, "acme/nothing": script.NotFound, "acme/": script.Invalid, "acme": script.Invalid, "shop/cart@2": script.NotFound,
	} {
		if _, err := w.call(ref); script.KindOf(err) != kind {
			t.Errorf("%s: %v, want %s", ref, err, kind)
		}
	}
	status := w.pool.Status()
	if len(status) != 1 || status[0].Tenant != "acme" || status[0].PID == 0 || status[0].PID == os.Getpid() || status[0].Memory == 0 {
		t.Errorf("status %+v", status)
	}
	t.Logf("a process has %d KiB", status[0].Memory>>10)
}

// TestAccess: the access rules hold on a tenant's own sockets.
func TestAccess(t *testing.T) {
	for rule, want := range map[string]string{
		fmt.Sprintf("uid:%d=acme", os.Getuid()):                `"hello x"<nil>`,
		fmt.Sprintf("uid:%d=shop", os.Getuid()):                "-DENIED",
		fmt.Sprintf("uid:%d=acme,shop", os.Getuid()+1_000_000): "-DENIED",
	} {
		w := newWorld(t, func(c *worker.Config) { c.Access = []string{rule} }, walled("acme"))
		w.publish("lua", "acme/route", `function handle(a) return "hello " .. a end`)
		w.answer("acme/route", `"x"`)
		c, err := net.Dial("unix", w.socket("acme", "resp"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := fcall(c, bufio.NewReader(c), "acme/route", `"x"`)
		c.Close()
		if all := fmt.Sprint(got, err); !strings.HasPrefix(all, want) {
			t.Errorf("%s: %s, want %s", rule, all, want)
		}
	}
}

// TestWithoutProcesses: a tenant that asks for one where there are none is refused, and
// never runs with the others.
func TestWithoutProcesses(t *testing.T) {
	w := newWorld(t, func(c *worker.Config) { c.Command = nil }, walled("acme"))
	w.publish("lua", "acme/route", `function handle(a) return a end`)
	w.publish("lua", "shop/cart", `function handle(a) return a end`)
	if got, err := w.call("acme/route", `1`); script.KindOf(err) != script.Unavailable || !strings.Contains(err.Error(), "asks for a process of its own") {
		t.Errorf("%s, %v", got, err)
	}
	if got := w.answer("shop/cart", `1`); got != "1" {
		t.Errorf("another tenant: %s", got)
	}
	shared := walled("acme")
	shared.Settings.Isolation = script.IsolationShared
	w.commit([]script.Object{{Tenant: &shared}})
	if got := w.answer("acme/route", `1`); got != "1" {
		t.Errorf("shared: %s", got)
	}
}

// TestUpdates: once a commit returns, every call runs what it has, and calls in flight
// end on what they began with.
func TestUpdates(t *testing.T) {
	w := newWorld(t, nil, walled("acme"))
	w.publish("lua", "acme/route", `function handle() return 0 end`)
	w.answer("acme/route")
	var live, asked atomic.Int64
	var done atomic.Bool
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for !done.Load() {
				least := live.Load()
				got, err := w.call("acme/route")
				most := asked.Load()
				var n int64
				if _, scanErr := fmt.Sscan(got, &n); err != nil || scanErr != nil || n < least || n > most {
					t.Errorf("got %q, %v, want between %d and %d", got, err, least, most)
					return
				}
			}
		})
	}
	for i := range int64(300) {
		asked.Store(i + 1)
		w.publish("lua", "acme/route", fmt.Sprintf(`function handle() return %d end`, i+1))
		live.Store(i + 1)
	}
	done.Store(true)
	callers.Wait()

	w.commit(nil, "releases/acme/route")
	if _, err := w.call("acme/route"); script.KindOf(err) != script.NotFound {
		t.Errorf("a script that is gone: %v", err)
	}
	if pids := w.metric("scriptorium_agent_worker_restarts_total"); pids != 0 {
		t.Errorf("%v processes were replaced", pids)
	}
}

// pid of the tenant's process, once it has one.
func (w *world) pid(tenant string) int {
	w.tb.Helper()
	pid := 0
	if !w.until(func() bool {
		for _, s := range w.pool.Status() {
			if s.Tenant == tenant {
				pid = s.PID
			}
		}
		return pid != 0
	}) {
		w.tb.Fatalf("%s has no process", tenant)
	}
	return pid
}

// serving waits until the agent knows that each tenant's process serves. An answer comes
// earlier, and a process that dies before the agent knows has replaced none.
func (w *world) serving() {
	w.tb.Helper()
	if !w.until(func() bool {
		return w.metric("scriptorium_agent_workers_serving") == w.metric("scriptorium_agent_workers")
	}) {
		w.tb.Fatal("not every tenant's process serves")
	}
}

// begun waits until the process of the only tenant that has one serves, so that its first call needs no second attempt.
func (w *world) begun(tenant string) {
	w.tb.Helper()
	w.pid(tenant)
	w.serving()
}

// fcall runs a script over a connection to a socket of the Redis protocol.
func fcall(c net.Conn, r *bufio.Reader, ref, arg string) (string, error) {
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(c, "*4\r\n$5\r\nFCALL\r\n$%d\r\n%s\r\n$1\r\n0\r\n$%d\r\n%s\r\n", len(ref), ref, len(arg), arg); err != nil {
		return "", err
	}
	head, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	var n int
	if _, err := fmt.Sscanf(head, "$%d", &n); err != nil {
		return "", errors.New(strings.TrimSpace(head))
	}
	body := make([]byte, n+2)
	if _, err := io.ReadFull(r, body); err != nil {
		return "", err
	}
	return string(body[:n]), nil
}

func (w *world) socket(tenant, protocol string) string {
	return filepath.Join(w.dir, "tenants", tenant, protocol+".sock")
}

// TestKilled kills the process again and again, under load over its own socket and over
// the agent's. Connections to its own socket are never refused, whatever is answered is
// right, and a call that is lost gets an error that says so.
func TestKilled(t *testing.T) {
	w := newWorld(t, func(c *worker.Config) { c.Quarantine.Deaths = 1 << 30 }, walled("acme"))
	w.publish("lua", "acme/route", `function handle(a) return "hello " .. a end`)
	w.publish("lua", "shop/cart", `function handle(a) return "cart " .. a end`)
	w.answer("acme/route", `"x"`)

	var done atomic.Bool
	var direct, forwarded, cut, lost, other atomic.Int64
	var callers sync.WaitGroup
	var gaps []time.Duration // of the time until a new connection is answered
	callers.Go(func() {      // a new connection for each call
		for !done.Load() {
			c, err := net.Dial("unix", w.socket("acme", "resp"))
			if err != nil {
				t.Errorf("refused: %v", err)
				return
			}
			got, err := fcall(c, bufio.NewReader(c), "acme/route", `"y"`)
			c.Close()
			switch {
			case err == nil && got == `"hello y"`:
				direct.Add(1)
			case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE):
				cut.Add(1)
			default:
				t.Errorf("direct: %q, %v", got, err)
				return
			}
		}
	})
	callers.Go(func() {
		for !done.Load() {
			got, err := w.call("acme/route", `"z"`)
			switch {
			case err == nil && got == `"hello z"`:
				forwarded.Add(1)
			case script.KindOf(err) == script.Unavailable && strings.Contains(err.Error(), "try again"):
				lost.Add(1)
			default:
				t.Errorf("forwarded: %q, %v", got, err)
				return
			}
		}
	})
	callers.Go(func() {
		for !done.Load() {
			if got, err := w.call("shop/cart", `"x"`); err != nil || got != `"cart x"` {
				t.Errorf("another tenant: %q, %v", got, err)
				return
			}
			other.Add(1)
		}
	})
	const kills = 20
	for range kills {
		w.serving()
		if !w.until(func() bool { return w.metric("scriptorium_agent_worker_spares") > 0 }) {
			t.Fatal("there is no spare")
		}
		pid := w.pid("acme")
		kill(t, pid)
		began := time.Now()
		if !w.until(func() bool { return w.pid("acme") != pid }) {
			t.Fatal("it is not replaced")
		}
		c, err := net.Dial("unix", w.socket("acme", "resp"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := fcall(c, bufio.NewReader(c), "acme/route", `"y"`)
		c.Close()
		if err != nil || got != `"hello y"` {
			t.Fatalf("after a kill: %q, %v", got, err)
		}
		gaps = append(gaps, time.Since(began))
	}
	done.Store(true)
	callers.Wait()
	slices.Sort(gaps)
	t.Logf("%d kills: %d direct calls (%d cut off), %d forwarded (%d lost), %d of another tenant; from kill to answer: median %v, most %v",
		kills, direct.Load(), cut.Load(), forwarded.Load(), lost.Load(), other.Load(), gaps[kills/2], gaps[kills-1])
	if got := w.metric("scriptorium_agent_worker_restarts_total", "killed"); got != kills {
		t.Errorf("%v kills were counted", got)
	}
	count, sum := w.replacements(kills)
	t.Logf("the agent's own figure: %.1f ms on average from the end of a process until the next served", 1000*sum/count)
}

// stopped reports whether all threads of a process are.
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/status", pid, task.Name()))
		if err != nil || !strings.Contains(string(text), "State:\tT") {
			return false
		}
	}
	return true
}

// TestConnectionsWait: one that is made while there is no process is answered by the
// next.
func TestConnectionsWait(t *testing.T) {
	w := newWorld(t, func(c *worker.Config) { c.Quarantine.Deaths = 1 << 30 }, walled("acme"))
	w.publish("lua", "acme/route", `function handle(a) return "hello " .. a end`)
	w.answer("acme/route", `"x"`)
	pid := w.pid("acme")
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if !w.until(func() bool { return stopped(t, pid) }) {
		t.Fatal("it does not stop")
	}
	answers := make(chan string, 8)
	for range cap(answers) {
		c, err := net.Dial("unix", w.socket("acme", "resp"))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer c.Close()
			got, err := fcall(c, bufio.NewReader(c), "acme/route", `"y"`)
			answers <- fmt.Sprint(got, err)
		}()
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for range cap(answers) {
		if got := <-answers; got != `"hello y"<nil>` {
			t.Errorf("got %s", got)
		}
	}
}

// TestDeaths: whatever ends a process ends it alone. Another tenant's calls keep being
// right, the process is replaced, and the script that ends it comes into quarantine.
func TestDeaths(t *testing.T) {
	for source, why := range map[string]string{"overflow": "crash", "maps": "crash", "heap": "memory"} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			if source == "heap" { // the detector's own memory is not bounded
				needs.NoRace(t)
			}
			acme := walled("acme")
			acme.Settings.MemoryBytes = 128 << 20
			w := newWorld(t, nil, acme, walled("shop"))
			w.publish("breaking", "acme/good", "fine")
			w.publish("breaking", "acme/bad", source)
			w.publish("breaking", "shop/cart", "cart")
			want := map[string]string{"acme/good": `"fine of good"`, "shop/cart": `"cart of cart"`}
			for range 3 {
				for ref, want := range want {
					if got := w.answer(ref); got != want {
						t.Errorf("%s: got %s", ref, got)
					}
				}
				shop := w.pid("shop")
				if got, err := w.call("acme/bad"); script.KindOf(err) != script.Unavailable {
					t.Fatalf("%s: %s, %v", source, got, err)
				}
				if w.pid("shop") != shop {
					t.Error("the process of another tenant was replaced")
				}
			}
			w.answer("acme/good")
			if got := w.metric("scriptorium_agent_worker_restarts_total", why); got != 3 {
				t.Errorf("%v deaths for the reason %s", got, why)
			}
			_, err := w.call("acme/bad")
			if script.KindOf(err) != script.Unavailable || !strings.Contains(err.Error(), "quarantine") {
				t.Fatalf("the fourth time: %v", err)
			}
			if _, err := w.call("acme/bad@1"); err == nil || !strings.Contains(err.Error(), "quarantine") {
				t.Errorf("by its version: %v", err)
			}
			<-w.changed
			list := w.pool.Quarantined()
			if len(list) != 1 || list[0].Script.String() != "acme/bad" || w.metric("scriptorium_agent_quarantined_scripts") != 1 {
				t.Errorf("in quarantine: %+v", list)
			}
			c, err := net.Dial("unix", w.socket("acme", "resp"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if got, err := fcall(c, bufio.NewReader(c), "acme/bad", `1`); err == nil || !strings.HasPrefix(err.Error(), "-UNAVAILABLE") {
				t.Errorf("over its own socket: %s, %v", got, err)
			}
			w.publish("breaking", "acme/bad", "mended")
			if got := w.answer("acme/bad"); got != `"mended of bad"` {
				t.Errorf("another release: %s", got)
			}
			if len(w.pool.Quarantined()) != 0 {
				t.Error("it is still in quarantine")
			}
		})
	}
}

// TestSuspects: where two scripts ran at each death, it is still found which one it was.
func TestSuspects(t *testing.T) {
	w := newWorld(t, nil, walled("acme"))
	w.publish("breaking", "acme/long", "wait")
	w.publish("breaking", "acme/bad", "overflow")
	w.publish("breaking", "acme/good", "fine")
	w.answer("acme/good")
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range 2 {
		callers.Go(func() {
			for ctx.Err() == nil {
				_, _ = w.callWithin(50*time.Millisecond, "acme/long")
			}
		})
	}
	found := w.until(func() bool {
		_, _ = w.callWithin(time.Second, "acme/bad")
		return len(w.pool.Quarantined()) > 0
	})
	cancel()
	callers.Wait()
	list := w.pool.Quarantined()
	if !found || len(list) != 1 || list[0].Script.Script != "bad" {
		t.Errorf("in quarantine: %+v", list)
	}
}

// TestIsolationChanges between shared and process, and memory, while calls go on.
func TestIsolationChanges(t *testing.T) {
	w := newWorld(t, nil)
	w.publish("lua", "acme/route", `function handle(a) return "hello " .. a end`)
	var done atomic.Bool
	var callers sync.WaitGroup
	for range 2 {
		callers.Go(func() {
			for !done.Load() {
				got, err := w.call("acme/route", `"x"`)
				if script.KindOf(err) == script.Unavailable && strings.Contains(err.Error(), "is being started") {
					continue // on a busy machine that may take longer than a call waits
				}
				if err != nil || got != `"hello x"` {
					t.Errorf("%q, %v", got, err)
					return
				}
			}
		})
	}
	set := func(change func(*script.TenantSettings)) {
		w.revision++
		tenant := script.Tenant{Name: "acme", Revision: w.revision, Settings: w.tenants.Settings("acme")}
		change(&tenant.Settings)
		w.commit([]script.Object{{Tenant: &tenant}})
	}
	for range 3 {
		set(func(s *script.TenantSettings) { s.Isolation = script.IsolationProcess })
		pid := w.pid("acme")
		set(func(s *script.TenantSettings) { s.MemoryBytes += 1 << 20 })
		if !w.until(func() bool { return w.pid("acme") != pid }) {
			t.Fatal("it is not replaced")
		}
		set(func(s *script.TenantSettings) { s.Isolation = script.IsolationShared })
		if len(w.pool.Status()) != 0 {
			t.Error("it still has a process")
		}
		if _, err := os.Stat(w.socket("acme", "resp")); err == nil {
			t.Error("its sockets are still there")
		}
	}
	done.Store(true)
	callers.Wait()
}
