package worker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// niceness of a process.
func niceness(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	return nicenessIn(t, text)
}

// ownNiceness is that of this process, but for threads that start others.
func ownNiceness(t *testing.T) int {
	t.Helper()
	threads, err := filepath.Glob("/proc/self/task/*/stat")
	if err != nil {
		t.Fatal(err)
	}
	least, seen := 0, false
	for _, file := range threads {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		if n := nicenessIn(t, text); !seen || n < least {
			least, seen = n, true
		}
	}
	if !seen {
		t.Fatal("this process has no threads")
	}
	return least
}

// nicenessIn what the kernel says of a process or a thread.
func nicenessIn(t *testing.T, text []byte) int {
	t.Helper()
	const field = 16 // after the name, which may have spaces
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) <= field {
		t.Fatalf("the kernel says %q", text)
	}
	n, err := strconv.Atoi(fields[field])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestProcessesComeBehind the agent: by their control groups where there are such, and by
// a lower priority elsewhere.
func TestProcessesComeBehind(t *testing.T) {
	w := newWorld(t, nil, walled("acme"))
	w.publish("lua", "acme/route", `function handle(a) return a end`)
	w.answer("acme/route", `1`)
	want := ownNiceness(t)
	if !delegated() {
		want = min(want+5, 19)
	}
	if got := niceness(t, w.pid("acme")); got != want {
		t.Errorf("a process has the niceness %d, want %d; control groups: %v", got, want, delegated())
	}
}
