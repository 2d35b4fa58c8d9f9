package hostile

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/scriptorium-dev/scriptorium/internal/porttest"
)

// victim is a process that is attacked.
type victim struct {
	t       *testing.T
	admin   string // its address
	metrics func() (string, error)
	pid     int
	ended   chan struct{}
}

func newVictim(t *testing.T) *victim {
	t.Helper()
	v := &victim{t: t, admin: porttest.Address(t), ended: make(chan struct{})}
	v.metrics = func() (string, error) { return get("tcp", v.admin, "/metrics") }
	return v
}

func (v *victim) process() *victim { return v }

func (v *victim) start(args []string) {
	v.t.Helper()
	cmd := exec.CommandContext(v.t.Context(), os.Args[0], args...)
	cmd.Stdout, cmd.Stderr = v.t.Output(), v.t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		v.t.Fatal(err)
	}
	v.pid = cmd.Process.Pid
	go func() {
		_ = cmd.Wait()
		close(v.ended)
	}()
	v.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-v.ended
	})
}

// await waits until something is so.
func (v *victim) await(what string, so func() bool) {
	v.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-v.ended:
			v.t.Fatal("the process has ended")
		case <-deadline.C:
			v.t.Fatalf("not in time: %s", what)
		}
	}
}

// processes returns the process, and those that it started.
func (v *victim) processes() []int {
	pids := []int{v.pid}
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", v.pid))
	for _, file := range children {
		text, _ := os.ReadFile(file)
		for pid := range strings.FieldsSeq(string(text)) {
			if n, err := strconv.Atoi(pid); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// resident returns the memory of a process in bytes.
func resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// descriptors returns how many a process has.
func descriptors(pid int) int {
	all, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(all)
}

// free has the process give free memory back, and waits until it has: a collection that overlaps
// the next attack takes what that has given up for live memory, and lets the heap grow to twice
// of it.
func (v *victim) free() {
	freed := make(chan os.Signal, 1)
	signal.Notify(freed, unix.SIGUSR1)
	defer signal.Stop(freed)
	if err := unix.Kill(v.pid, unix.SIGUSR1); err != nil {
		v.t.Fatal(err)
	}
	select {
	case <-freed:
	case <-time.After(10 * time.Second):
		v.t.Fatal("the process does not give memory back")
	}
}

// metric returns the sum of a metric.
func (v *victim) metric(name string) float64 {
	text, err := v.metrics()
	if err != nil {
		v.t.Errorf("read the metrics: %v", err)
		return 0
	}
	sum := 0.0
	for line := range strings.Lines(text) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if base, _, _ := strings.Cut(series, "{"); base == name {
			v, _ := strconv.ParseFloat(value, 64)
			sum += v
		}
	}
	return sum
}

// held returns how many goroutines the process has, and how many descriptors it and those that it
// started have.
func (v *victim) held() (files, goroutines int) {
	for _, pid := range v.processes() {
		files += descriptors(pid)
	}
	return files, int(v.metric("go_goroutines"))
}

// watch watches the memory of processes.
type watch struct {
	stop, done chan struct{}
	growth     int64
}

func (v *victim) watch() *watch {
	w := &watch{stop: make(chan struct{}), done: make(chan struct{})}
	base := map[int]int64{}
	for _, pid := range v.processes() {
		base[pid] = resident(pid)
	}
	go func() {
		defer close(w.done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for last := false; !last; {
			select {
			case <-tick.C:
			case <-w.stop:
				last = true
			}
			for pid, before := range base {
				w.growth = max(w.growth, resident(pid)-before)
			}
		}
	}()
	return w
}

func (w *watch) end() int64 {
	close(w.stop)
	<-w.done
	return w.growth
}

// get asks over HTTP on a connection of its own.
func get(network, address, path string) (string, error) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	client := http.Client{Transport: transport, Timeout: patience}
	resp, err := client.Get("http://agent" + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s %.200s", path, resp.Status, body)
	}
	return string(body), err
}
