package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// dirPrefix begins the name of every cluster's folder; the id of the process that
// made it follows.
const dirPrefix = "faults-"

// NewDir makes a folder for a cluster. The caller removes it.
func NewDir() (string, error) {
	return os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
}

// ownerOf returns the id of the process that made the folder that path is in.
func ownerOf(path string) (pid int, ok bool) {
	for part := range strings.SplitSeq(path, string(filepath.Separator)) {
		if rest, found := strings.CutPrefix(part, dirPrefix); found {
			number, _, more := strings.Cut(rest, "-")
			pid, err := strconv.Atoi(number)
			return pid, more && err == nil
		}
	}
	return 0, false
}

// Process is one program that is started, killed and started again. It is safe for
// concurrent use.
type Process struct {
	Name string

	path string
	args []string
	env  []string
	log  string // path

	mu      sync.Mutex
	cmd     *exec.Cmd
	ended   chan struct{} // closed when cmd has
	wanted  bool          // it is to run: an end is none of ours
	paused  bool
	starts  int
	crashes []Crash
}

// Crash is an end that nobody asked for.
type Crash struct {
	Process string
	At      time.Time
	Reason  string
	Log     string // the end of what it said
}

// NewProcess returns a process that is not started yet. Its log goes to DIR/log/NAME.log.
func NewProcess(dir, name, path string, args, env []string) *Process {
	return &Process{Name: name, path: path, args: args, env: env, log: filepath.Join(dir, "log", name+".log")}
}

// Start starts the process, unless it runs.
func (p *Process) Start() error { return p.StartWith() }

// StartWith starts the process with more arguments, unless it runs.
func (p *Process) StartWith(more ...string) error {
	args := slices.Concat(p.args, more)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wanted && p.running() {
		return nil
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own
	p.starts++
	fmt.Fprintf(log, "--- start %d: %s %s\n", p.starts, p.path, strings.Join(args, " "))
	// The process outlives every context: Kill ends it, and the kernel does when
	// this process ends.
	cmd := exec.CommandContext(context.Background(), p.path, args...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = apart()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.cmd, p.ended, p.wanted, p.paused = cmd, make(chan struct{}), true, false
	go p.wait(cmd, p.ended)
	return nil
}

// running reports whether there is a process. p.mu is held.
func (p *Process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Running reports whether there is a process.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running()
}

func (p *Process) wait(cmd *exec.Cmd, ended chan struct{}) {
	err := cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	close(ended)
	if !p.wanted || p.cmd != cmd {
		return
	}
	reason := "exit status 0"
	if err != nil {
		reason = err.Error()
	}
	p.crashes = append(p.crashes, Crash{Process: p.Name, At: time.Now(), Reason: reason, Log: p.tail()})
}

// Kill ends the process as kill -9 does, and waits for its end.
func (p *Process) Kill() {
	p.mu.Lock()
	p.wanted = false
	if !p.running() {
		p.mu.Unlock()
		return
	}
	ended := p.ended
	p.signal(syscall.SIGKILL)
	p.mu.Unlock()
	<-ended
}

// Stop asks the process to end, and kills it if it has not ended in time.
func (p *Process) Stop(within time.Duration) {
	p.mu.Lock()
	p.wanted = false
	if !p.running() {
		p.mu.Unlock()
		return
	}
	ended := p.ended
	p.signal(syscall.SIGTERM)
	p.mu.Unlock()
	select {
	case <-ended:
	case <-time.After(within):
		p.Kill()
	}
}

// PID returns the process id; 0 if there is no process.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return 0
	}
	return p.cmd.Process.Pid
}

// Pause stops the process from running, as SIGSTOP does.
func (p *Process) Pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		p.paused = true
		p.signal(syscall.SIGSTOP)
	}
}

// Resume lets a paused process go on.
func (p *Process) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() && p.paused {
		p.paused = false
		p.signal(syscall.SIGCONT)
	}
}

// Signal sends a signal to the process, if it runs.
func (p *Process) Signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		p.signal(s)
	}
}

func (p *Process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Crashes returns the ends that nobody asked for, and forgets them.
func (p *Process) Crashes() []Crash {
	p.mu.Lock()
	defer p.mu.Unlock()
	crashes := p.crashes
	p.crashes = nil
	return crashes
}

// tailBytes is how much of a log is shown.
const tailBytes = 4 << 10

// Tail returns the end of what the process said.
func (p *Process) Tail() string { return p.tail() }

func (p *Process) tail() string {
	file, err := os.Open(p.log)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err.Error()
	}
	text := make([]byte, min(size, tailBytes))
	if _, err := file.ReadAt(text, size-int64(len(text))); err != nil && !errors.Is(err, io.EOF) {
		return err.Error()
	}
	return string(text)
}
