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
	return nicenessIn(t, fmt.Sprintf("/proc/%d/stat", pid))
}

// ownNiceness is that of this process, but for threads that start others.
func ownNiceness(t *testing.T) int {
	t.Helper()
	threads, err := filepath.Glob("/proc/self/task/*/stat")
	if err != nil || len(threads) == 0 {
		t.Fatalf("%d threads, %v", len(threads), err)
	}
	least := nicenessIn(t, threads[0])
	for _, file := range threads {
		if _, err := os.Stat(file); err == nil { // it has not ended
			least = min(least, nicenessIn(t, file))
		}
	}
	return least
}

func nicenessIn(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const field = 16 // after the name, which may have spaces
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) <= field {
		t.Fatalf("%s says %q", file, text)
	}
	n, err := strconv.Atoi(fields[field])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestProcessesComeBehind the agent where no control group sees to that.
func TestProcessesComeBehind(t *testing.T) {
	w := newWorld(t, nil, walled("acme"))
	w.publish("lua", "acme/route", `function handle(a) return a end`)
	w.answer("acme/route", `1`)
	if !strings.Contains(w.log.String(), "bounded by their own limits") {
		t.Skip("there are control groups")
	}
	own := ownNiceness(t)
	if got := niceness(t, w.pid("acme")); got != min(own+5, 19) {
		t.Errorf("a process has the niceness %d, and the agent %d", got, own)
	}
}
