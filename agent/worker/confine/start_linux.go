package confine

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Executable is this program's own file: the very one that runs, even if another one
// has taken its name meanwhile, and whoever may reach its folder.
const Executable = "/proc/self/exe"

// Attributes of a process to start: a session of its own, the user and the group of the same
// number, if this one is root, and a control group, if that is not nil. It is killed when the
// thread that starts it ends: see NewStarter.
func Attributes(user uint32, group *Cgroup) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: user, Gid: user}
	}
	if group != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, group.FD()
	}
	return attr
}

// Starter runs what starts processes on a thread that lives as long as they may.
type Starter struct {
	work chan func()
	done chan struct{}
}

// niceness of processes that no control group holds back, compared to the agent.
const niceness = 5

// NewStarter returns a starter. If behind, what it starts comes behind this process
// when both want the processor.
func NewStarter(behind bool) (*Starter, error) {
	s := &Starter{work: make(chan func()), done: make(chan struct{})}
	ready := make(chan error)
	go s.run(behind, ready)
	return s, <-ready
}

// run does the starter's work on a thread that ends with it.
func (s *Starter) run(behind bool, ready chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() { // Go never ends the main thread: keep it taken until another thread is done
		defer runtime.UnlockOSThread()
		go s.run(behind, ready)
		<-s.done
		return
	}
	defer close(s.done)
	if behind {
		if err := stepBack(); err != nil {
			ready <- fmt.Errorf("lower the priority of processes: %w", err)
			return
		}
	}
	ready <- nil
	for work := range s.work {
		work()
	}
}

// stepBack lowers the priority of this thread.
func stepBack() error {
	const middle = 20 // the kernel says 20 less the niceness, lest it look like an error
	now, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return err
	}
	return unix.Setpriority(unix.PRIO_PROCESS, 0, min(middle-now+niceness, middle-1))
}

// Do runs f, which starts a process.
func (s *Starter) Do(f func()) {
	ran := make(chan struct{})
	s.work <- func() {
		defer close(ran)
		f()
	}
	<-ran
}

// Close ends the thread, and with it every process that it started. Do is not called
// any more.
func (s *Starter) Close() {
	close(s.work)
	<-s.done
}
