package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/worker/confine"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
)

// descriptors returns how many this process has.
func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestProcessesThatDoNotGetReady leave nothing behind.
func TestProcessesThatDoNotGetReady(t *testing.T) {
	p, err := New(Config{
		Node:    Node{Table: cache.NewTable(), Tenants: cache.NewTenants()},
		Command: []string{"-test.list=^$"}, // this binary, which then ends at once
		Log:     slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	h := p.host
	if h.starter, err = confine.NewStarter(false); err != nil {
		t.Fatal(err)
	}
	defer h.close()
	start := func() {
		if _, err := h.start(); err == nil {
			t.Fatal("it is ready")
		}
	}
	start()
	const times = 20
	before := descriptors(t)
	for range times {
		start()
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for descriptors(t) >= before+times { // connections end a moment later
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d descriptors, and %d after %d processes", before, descriptors(t), times)
		}
	}
}

// newStarted returns a tenant, and a process that it does not have yet.
func newStarted(t *testing.T) (*tenant, *process) {
	t.Helper()
	acme := newIdle(t, &bytes.Buffer{})
	h := acme.pool.host
	h.pool.cfg.Node.Values = cache.NewValues(nil, 1)
	h.pool.cfg.Node.Position = func(time.Time) gateway.Position { return gateway.Position{} }
	h.pool.cfg.Command = []string{"worker"}
	var err error
	if h.starter, err = confine.NewStarter(false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.close)
	p, err := h.start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill(reasonSettings)
		<-p.ended
		p.close()
	})
	return acme, p
}

// TestTheFirstReason is what a process died of: the agent may end it only later.
func TestTheFirstReason(t *testing.T) {
	for want, end := range map[reason]func(p *process) error{
		reasonKilled: func(p *process) error { return syscall.Kill(p.cmd.Process.Pid, syscall.SIGKILL) },
		reasonSlow:   func(p *process) error { p.kill(reasonSlow); return nil },
	} {
		acme, p := newStarted(t)
		if err := end(p); err != nil {
			t.Fatal(err)
		}
		if err := acme.giveUp(p, errors.New("it does not begin to serve")); err == nil {
			t.Error("there is no error")
		}
		if p.end.why != want {
			t.Errorf("died of %s, want %s", p.end.why, want)
		}
	}
}

// lateAnswer holds back the answer to Serve, after the process has begun to.
type lateAnswer struct {
	workerv1.WorkerClient
	began, answer chan struct{}
}

func (l lateAnswer) Serve(ctx context.Context, req *workerv1.ServeRequest, options ...grpc.CallOption) (*workerv1.ServeResponse, error) {
	resp, err := l.WorkerClient.Serve(ctx, req, options...)
	close(l.began)
	<-l.answer
	return resp, err
}

// TestServing: a process counts as one that serves once it has said so.
func TestServing(t *testing.T) {
	acme, p := newStarted(t)
	acme.pool.put(acme.name, acme)
	late := lateAnswer{WorkerClient: p.client, began: make(chan struct{}), answer: make(chan struct{})}
	p.client = late
	over := make(chan error)
	go func() { over <- acme.handOver(p) }()
	<-late.began
	if n := acme.pool.serving(); n != 0 || acme.status().PID == 0 {
		t.Errorf("%d serve before the agent knows, status %+v", n, acme.status())
	}
	close(late.answer)
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if n := acme.pool.serving(); n != 1 {
		t.Errorf("%d serve", n)
	}
}
