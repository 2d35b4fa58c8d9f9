package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/worker/confine"
	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// process is one that was started, with or without a tenant.
type process struct {
	cmd     *exec.Cmd
	group   *confine.Cgroup // nil if there is none
	free    func()          // gives its user back; nil if it has none for itself
	control *net.UnixConn
	worker  net.Conn // which conn speaks over
	conn    *grpc.ClientConn
	client  workerv1.WorkerClient
	caller  *caller
	home    *home
	output  *output
	ended   chan struct{} // closed when it has
	end     end
	why     atomic.Pointer[reason]
	serves  atomic.Bool // it has said that it does

	mu       sync.Mutex    // guards what follows
	calls    int           // that were forwarded and are not answered
	retired  bool          // no more are
	idle     chan struct{} // closed when it is retired and the last one is answered
	page     *link.Page    // nil once closed
	pageFile *os.File
	beats    uint64
	beat     time.Time // when they last changed
	looked   time.Time // when the page got its position
	cutOff   time.Time // since when the process is not reachable; zero while it is
}

// end is what is known of the end of a process that has died.
type end struct {
	known chan struct{} // closed once what follows is set
	why   reason
	ran   map[link.Mark]bool
}

// startPatience is how long a process may take until it is confined; on a busy machine
// that is long.
const startPatience = 20 * time.Second

// newProcess starts a process and waits until it is confined. The process owns the
// group, also if it fails.
func newProcess(h *host, group *confine.Cgroup) (*process, error) {
	p := &process{
		group: group, ended: make(chan struct{}), end: end{known: make(chan struct{})}, idle: make(chan struct{}), output: newOutput(h.pool.cfg.Log),
		home: newHome(h.pool.cfg), beat: time.Now(),
	}
	theirs, err := p.connect()
	if err == nil {
		err = p.launch(h, theirs)
	}
	for _, f := range theirs { // or nobody would see that the other side is gone
		_ = f.Close()
	}
	if err == nil {
		err = p.confined()
	}
	if err != nil {
		p.kill(reasonFailed)
		if p.started() {
			<-p.ended
		}
		p.close()
		return nil, err
	}
	return p, nil
}

// connect makes what connects the process with the agent, and returns what the process
// gets of it, which is the caller's also if it fails.
func (p *process) connect() (theirs []*os.File, err error) {
	control, their, err := link.Packets()
	if err != nil {
		return theirs, err
	}
	p.control, p.caller = control, newCaller(control)
	theirs = append(theirs, their)

	worker, their, err := link.Stream()
	if err != nil {
		return theirs, err
	}
	theirs = append(theirs, their)
	if p.conn, err = link.Dial(worker); err != nil {
		return theirs, errors.Join(err, worker.Close())
	}
	p.worker, p.client = worker, workerv1.NewWorkerClient(p.conn)

	home, their, err := link.Stream()
	if err != nil {
		return theirs, err
	}
	theirs = append(theirs, their)
	go link.Serve(p.home.server, home)

	p.page, p.pageFile, err = link.NewPage()
	return theirs, err
}

// launch starts the process.
func (p *process) launch(h *host, theirs []*os.File) error {
	// The process may leave its standard error open to nobody: its end does not wait.
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe for its log: %w", err)
	}
	user := uint32(os.Geteuid())
	if user == 0 {
		if user, err = h.ids.take(); err != nil {
			return errors.Join(err, r.Close(), w.Close())
		}
		p.free = func() { h.ids.give(user) }
	}
	p.cmd = &exec.Cmd{
		Path: confine.Executable, Args: append([]string{os.Args[0]}, h.pool.cfg.Command...),
		Env: []string{"GOTRACEBACK=single"}, Dir: "/",
		Stderr: w, ExtraFiles: theirs, SysProcAttr: confine.Attributes(user, p.group),
	}
	h.starter.Do(func() { err = p.cmd.Start() })
	_ = w.Close()
	if err != nil {
		return errors.Join(fmt.Errorf("as user %d, which an agent that is root needs SETUID and SETGID for, and a line in /proc/self/uid_map: %w", user, err), r.Close())
	}
	taken := make(chan struct{})
	h.running.Go(func() {
		defer close(taken)
		p.output.readAll(r)
	})
	h.running.Go(func() {
		_ = p.cmd.Wait() // what there is to say is in the state
		close(p.output.ended)
		_ = r.SetReadDeadline(time.Now().Add(lastWords))
		<-taken
		_ = r.Close()
		close(p.ended)
	})
	return nil
}

// lastWords is how long the rest of what a process wrote may take to be read.
const lastWords = time.Second

// started reports whether there is, or was, a process.
func (p *process) started() bool { return p.cmd != nil && p.cmd.Process != nil }

// confined waits until the process says that it is.
func (p *process) confined() error {
	if err := p.control.SetReadDeadline(time.Now().Add(startPatience)); err != nil {
		return err
	}
	_, _, err := link.Receive(p.control)
	if err == nil {
		return p.control.SetReadDeadline(time.Time{})
	}
	select {
	case <-p.ended:
	case <-time.After(time.Second): // for its last words
	}
	first, _ := p.output.crash()
	return fmt.Errorf("it did not get ready (%w): %s", err, first)
}

// assign makes the process t's, with the limits that the settings have.
func (p *process) assign(t *tenant, s script.TenantSettings, a *workerv1.Assignment) error {
	p.home.tenant.Store(t)
	p.output.of(t.name)
	if p.group != nil {
		if err := p.group.Limit(s.MemoryBytes, s.CPU); err != nil {
			return fmt.Errorf("set the limits of the control group: %w", err)
		}
		a.Capped = true
	}
	files := []*os.File{p.pageFile}
	for _, l := range t.sockets.list() {
		a.Sockets = append(a.Sockets, l.protocol)
		files = append(files, l.file)
	}
	packet, err := proto.Marshal(a)
	if err != nil {
		return err
	}
	if err := p.control.SetWriteDeadline(time.Now().Add(handOverPatience)); err != nil {
		return err
	}
	defer func() { _ = p.control.SetWriteDeadline(time.Time{}) }()
	if err := link.Send(p.control, packet, files); err != nil {
		return fmt.Errorf("hand the sockets over: %w", err)
	}
	return nil
}

// look tells how far the agent has come, and returns for how long the process has given
// no sign. A process that is behind keeps its own position, which grows old.
func (p *process) look(at gateway.Position, behind bool, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.page == nil {
		return 0
	}
	if behind {
		if at = p.page.Position(); at.Staleness >= 0 {
			at.Staleness += now.Sub(p.looked)
		}
	}
	p.looked = now
	p.page.SetPosition(at)
	if beats := p.page.Beats(); beats != p.beats {
		p.beats, p.beat = beats, now
	}
	return now.Sub(p.beat)
}

// unreachable returns for how long nothing can be sent to the process.
func (p *process) unreachable(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.reachable():
		p.cutOff = time.Time{}
		return 0
	case p.cutOff.IsZero():
		p.cutOff = now
	}
	return now.Sub(p.cutOff)
}

// ranAtTheEnd returns what the process ran when it ended.
func (p *process) ranAtTheEnd() map[link.Mark]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.page == nil {
		return nil
	}
	return p.page.Running()
}

// kill ends the process at once; what is noted is the first reason. A process that has
// ended by then did so for another one.
func (p *process) kill(why reason) {
	select {
	case <-p.ended:
		return
	default:
	}
	p.why.CompareAndSwap(nil, &why)
	if p.started() {
		_ = p.cmd.Process.Kill() // it may have ended
	}
}

// reason says why the process has ended.
func (p *process) reason() reason {
	first, _ := p.output.crash()
	status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if why := p.why.Load(); why != nil && status.Signaled() && status.Signal() == syscall.SIGKILL {
		return *why // otherwise it ended by itself just before
	}
	switch {
	case p.group != nil && p.group.OutOfMemory(),
		strings.Contains(first, "out of memory"), strings.Contains(first, "cannot allocate memory"):
		return reasonMemory
	case status.Signaled() && status.Signal() == syscall.SIGKILL:
		return reasonKilled
	case first != "" || status.Signaled() || status.ExitStatus() != 0:
		return reasonCrash
	}
	return reasonExit
}

// state says how the process ended.
func (p *process) state() string { return p.cmd.ProcessState.String() }

// resident returns the memory that the process has, in bytes.
func (p *process) resident() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// reachable reports whether calls can be forwarded. They cannot from the moment that the
// process ends, which is a little before the agent knows that it has.
func (p *process) reachable() bool { return p.conn.GetState() == connectivity.Ready }

// enter begins to forward a call, unless the process is retired.
func (p *process) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired {
		return false
	}
	p.calls++
	return true
}

// leave ends what enter began.
func (p *process) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls--
	if p.retired && p.calls == 0 {
		close(p.idle)
	}
}

// retire takes no more calls.
func (p *process) retire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retired = true
	if p.calls == 0 {
		close(p.idle)
	}
}

// drain lets the process, in whose place there is another or none, finish what it does
// until ctx is done, and ends it.
func (p *process) drain(ctx context.Context) {
	p.retire()
	if _, err := p.client.Drain(ctx, &workerv1.DrainRequest{}); err == nil {
		select {
		case <-p.idle:
		case <-p.ended:
		case <-ctx.Done():
		}
	}
	p.kill(reasonSettings)
	<-p.ended
}

// close releases what is left of a process that has ended.
func (p *process) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.home != nil {
		p.home.server.Stop()
	}
	if p.conn != nil {
		_ = errors.Join(p.conn.Close(), p.worker.Close()) // which conn does not close before it is used
	}
	if p.caller != nil {
		p.caller.close()
	}
	if p.control != nil {
		_ = p.control.Close()
	}
	if p.page != nil {
		_ = errors.Join(p.page.Close(), p.pageFile.Close())
		p.page = nil
	}
	if p.group != nil {
		_ = p.group.Remove()
		p.group = nil
	}
	if p.free != nil {
		p.free()
		p.free = nil
	}
}
