package worker_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/worker"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

// statusOf returns the fields of a line of a process's status.
func statusOf(t *testing.T, pid int, name string) []string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.Fields(value)
		}
	}
	return nil
}

// TestEachProcessHasItsOwnUser: no two processes have the same, no user of one can do anything to
// another, and what ended gives its user back.
func TestEachProcessHasItsOwnUser(t *testing.T) {
	needs.Root(t, "runs processes as other users")
	// Two tenants have a process each, and there are two spares.
	w := newWorld(t, func(c *worker.Config) { c.Spares, c.Users = 2, worker.Users{First: 1_900_065_000, Last: 1_900_065_004} }, walled("acme"), walled("shop"))
	for _, tenant := range []string{"acme", "shop"} {
		w.publish("lua", tenant+"/route", `function handle(a) return a end`)
	}
	for range 10 { // more processes than users
		var pids []int
		var users []string
		for _, tenant := range []string{"acme", "shop"} {
			w.answer(tenant+"/route", "1")
		}
		for _, s := range w.pool.Status() {
			uid, gid := statusOf(t, s.PID, "Uid"), statusOf(t, s.PID, "Gid")
			if !slices.Equal(uid, gid) || len(slices.Compact(slices.Clone(uid))) != 1 || len(statusOf(t, s.PID, "Groups")) != 0 {
				t.Errorf("%s runs as %v of the groups %v and %v", s.Tenant, uid, gid, statusOf(t, s.PID, "Groups"))
			}
			if id, _ := strconv.Atoi(uid[0]); id < 1_900_065_000 || id > 1_900_065_004 {
				t.Errorf("%s runs as %v", s.Tenant, uid)
			}
			pids, users = append(pids, s.PID), append(users, uid[0])
		}
		if users[0] == users[1] {
			t.Errorf("both run as %s", users[0])
		}
		strangers(t, users[0], pids[1])
		if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if !w.until(func() bool { return w.pool.Status()[0].PID != pids[0] && w.pool.Status()[0].PID != 0 }) {
			t.Fatal("the process was not replaced")
		}
	}
}

// strangers fails if the user can signal the process or look into it.
func strangers(t *testing.T, user string, pid int) {
	t.Helper()
	id, err := strconv.ParseUint(user, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	for _, attempt := range []string{
		"kill -0 $0", "kill -9 $0", "cat /proc/$0/environ", "cat /proc/$0/maps", "cat /proc/$0/mem", "ls /proc/$0/fd", "ls /proc/$0/root/",
	} {
		sh := exec.CommandContext(t.Context(), "/bin/sh", "-c", attempt, strconv.Itoa(pid))
		sh.Dir, sh.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}}
		if out, err := sh.CombinedOutput(); err == nil || !strings.Contains(strings.ToLower(string(out)), "not permitted") && !strings.Contains(strings.ToLower(string(out)), "denied") {
			t.Errorf("%s as user %s: %q, %v", attempt, user, out, err)
		}
	}
}
