package confine_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/scriptorium-dev/scriptorium/agent/worker/confine"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

// This test binary is also the process that is confined.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "confined" {
		if err := confined(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// besides runs f on a thread other than the main one, which has a parent's death signal.
func besides(f func() error) error {
	ran := make(chan error)
	var run func()
	run = func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if unix.Gettid() != unix.Getpid() {
			ran <- f()
			return
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			run()
		}()
		<-done
	}
	go run()
	return <-ran
}

// confined confines this process, which then does what it is asked for.
func confined(what string) error {
	if err := besides(confine.SmallStacks); err != nil {
		return err
	}
	socket, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	c, err := confine.Self(socket[1])
	if err != nil {
		return err
	}
	if c.NotFirst != nil {
		return c.NotFirst
	}
	switch what {
	case "escape":
		for _, attempt := range attempts(os.Getppid(), socket[0], socket[1]) {
			fmt.Printf("%s: %v\n", attempt.name, attempt.try())
		}
	case "use":
		return use(socket)
	case "memory":
		if err := c.Memory(96<<20, false); err != nil {
			return err
		}
		fmt.Println("capped")
		var held [][]byte
		for {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += os.Getpagesize() {
				b[i] = 1
			}
			held = append(held, b)
			fmt.Println(len(held), "MiB")
		}
	case "spin":
		fmt.Println("spins")
		for n := 0; ; n++ {
		}
	case "threads": // more than Go allows, too, which one that was taken over need not heed
		debug.SetMaxThreads(10_000)
		var threads sync.WaitGroup
		threads.Add(1000)
		for range 1000 {
			go func() {
				runtime.LockOSThread()
				threads.Done()
				select {}
			}()
		}
		threads.Wait()
		fmt.Println("1000 threads")
	case "limits":
		for _, name := range []string{"core", "nofile", "stack"} {
			var l unix.Rlimit
			if err := unix.Prlimit(0, map[string]int{"core": unix.RLIMIT_CORE, "nofile": unix.RLIMIT_NOFILE, "stack": unix.RLIMIT_STACK}[name], nil, &l); err != nil {
				return err
			}
			fmt.Println(name, l.Max)
		}
		fmt.Println("uid", os.Getppid() > 0, syscall.Getpid())
		_, _ = io.ReadAll(os.Stdin)
	}
	return nil
}

type attempt struct {
	name string
	try  func() error
}

func call(nr uintptr, args ...uintptr) error {
	for len(args) < 6 {
		args = append(args, 0)
	}
	if _, _, errno := unix.Syscall6(nr, args[0], args[1], args[2], args[3], args[4], args[5]); errno != 0 {
		return errno
	}
	return nil
}

// attempts are ways out. Descriptors may be received over receiver alone.
func attempts(agent, socket, receiver int) []attempt {
	path := []byte("/etc/passwd\x00")
	name := uintptr(unsafe.Pointer(&path[0]))
	cwd := int32(unix.AT_FDCWD)
	at := uintptr(uint32(cwd))
	raw := func(name string, nr uintptr, args ...uintptr) attempt {
		return attempt{name, func() error { return call(nr, args...) }}
	}
	return []attempt{
		{"read a file", func() error { _, err := os.ReadFile("/etc/passwd"); return err }},
		{"write a file", func() error { return os.WriteFile(filepath.Join(os.TempDir(), "x"), nil, 0o600) }},
		{"make a folder", func() error { return os.Mkdir("/tmp/x", 0o700) }},
		{"remove a file", func() error { return os.Remove("/etc/passwd") }},
		{"look at a file", func() error { _, err := os.Stat("/etc/passwd"); return err }},
		{"list a folder", func() error { _, err := os.ReadDir("/"); return err }},
		{"run a program", func() error { return exec.Command("/bin/true").Run() }},
		{"become a program", func() error { return unix.Exec("/bin/true", []string{"true"}, nil) }},
		{"a TCP socket", func() error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); return err }},
		{"a Unix socket", func() error { _, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err }},
		{"a netlink socket", func() error { _, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, 0); return err }},
		{"a socketpair", func() error { _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err }},
		{"connect", func() error { return unix.Connect(socket, &unix.SockaddrUnix{Name: "/run/x"}) }},
		{"bind", func() error { return unix.Bind(socket, &unix.SockaddrUnix{Name: "/tmp/x"}) }},
		{"listen", func() error { return unix.Listen(socket, 1) }},
		{"kill the agent", func() error { return unix.Kill(agent, unix.SIGKILL) }},
		{"see whether the agent is there", func() error { return unix.Kill(agent, 0) }},
		{"kill everybody", func() error { return unix.Kill(-1, unix.SIGKILL) }},
		{"kill a thread of the agent", func() error { return unix.Tgkill(agent, agent, unix.SIGKILL) }},
		{"be signaled by a socket", func() error { _, err := unix.FcntlInt(uintptr(socket), unix.F_SETOWN, agent); return err }},
		{"limit the agent", func() error { return unix.Prlimit(agent, unix.RLIMIT_NOFILE, &unix.Rlimit{}, nil) }},
		{"memory that holds code", func() error {
			_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
			return err
		}},
		{"memory that all share", func() error {
			_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
			return err
		}},
		raw("a stack that grows", unix.SYS_MMAP, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_GROWSDOWN, ^uintptr(0)),
		raw("huge pages", unix.SYS_MMAP, 0, 2<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_HUGETLB, ^uintptr(0)),
		{"shut a shared socket down", func() error { return unix.Shutdown(socket, unix.SHUT_RDWR) }},
		{"change a shared socket", func() error { return unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUF, 1<<20) }},
		{"hand a descriptor out", func() error { return unix.Sendmsg(socket, []byte("x"), unix.UnixRights(socket), nil, 0) }},
		{"send to somebody", func() error { return unix.Sendto(socket, []byte("x"), 0, &unix.SockaddrUnix{Name: "/run/x"}) }},
		{"be handed a descriptor", func() error {
			_, _, _, _, err := unix.Recvmsg(socket, make([]byte, 1), make([]byte, 64), unix.MSG_DONTWAIT)
			return err
		}},
		{"have another socket in the place of the one that receives", func() error { return unix.Close(receiver) }},
		{"be dumpable", func() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) }},
		raw("trace the agent", unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(agent)),
		raw("read the agent's memory", unix.SYS_PROCESS_VM_READV, uintptr(agent)),
		raw("take a descriptor of the agent", unix.SYS_PIDFD_OPEN, uintptr(agent)),
		raw("a process by clone", unix.SYS_CLONE, uintptr(unix.SIGCHLD)),
		raw("a namespace by clone", unix.SYS_CLONE, uintptr(unix.CLONE_NEWUSER)|uintptr(unix.SIGCHLD)),
		raw("a namespace", unix.SYS_UNSHARE, unix.CLONE_NEWUSER),
		raw("io_uring", unix.SYS_IO_URING_SETUP, 1),
		raw("bpf", unix.SYS_BPF),
		raw("open by handle", unix.SYS_OPEN_BY_HANDLE_AT, at, name),
		raw("openat2", unix.SYS_OPENAT2, at, name),
		raw("mount", unix.SYS_MOUNT, name, name),
		raw("another filter", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER),
		raw("keys", unix.SYS_ADD_KEY, name, name),
		raw("userfaultfd", unix.SYS_USERFAULTFD),
		raw("perf", unix.SYS_PERF_EVENT_OPEN),
		raw("a file in memory", unix.SYS_MEMFD_CREATE, name),
		raw("ioctl", unix.SYS_IOCTL, uintptr(socket), unix.TIOCINQ, name),
		raw("become root", unix.SYS_SETUID, 0),
		raw("change the root", unix.SYS_CHROOT, name),
		raw("reboot", unix.SYS_REBOOT),
		raw("another priority", unix.SYS_SETPRIORITY, 0, 0, 0),
	}
}

// use does what a process of a tenant has to be able to do.
func use(socket [2]int) error {
	c := make(chan int)
	var threads sync.WaitGroup
	for range 20 { // each takes a thread
		threads.Go(func() {
			runtime.LockOSThread()
			c <- unix.Gettid()
		})
	}
	seen := map[int]bool{}
	for range 20 {
		seen[<-c] = true
	}
	threads.Wait()
	if len(seen) < 10 {
		return fmt.Errorf("%d threads", len(seen))
	}
	for range 50 {
		_ = make([]byte, 1<<20)
	}
	runtime.GC()
	if _, err := unix.Write(socket[0], []byte("hello")); err != nil {
		return err
	}
	b := make([]byte, 5)
	if _, err := unix.Read(socket[1], b); err != nil || string(b) != "hello" {
		return fmt.Errorf("read %q: %w", b, err)
	}
	if _, err := unix.Write(socket[0], []byte("hello")); err != nil {
		return err
	}
	if n, _, _, _, err := unix.Recvmsg(socket[1], b, nil, 0); err != nil || n != len(b) {
		return fmt.Errorf("receive %d bytes: %w", n, err)
	}
	<-time.NewTimer(10 * time.Millisecond).C // timers go off
	fmt.Println("works at", time.Now().Year() > 2000)
	return nil
}

// start starts this binary confined, as an agent would.
func start(t *testing.T, what string) (cmd *exec.Cmd, out io.ReadCloser, said *strings.Builder) {
	t.Helper()
	s, err := confine.NewStarter(true)
	if err != nil {
		t.Fatal(err)
	}
	said = &strings.Builder{}
	cmd = exec.CommandContext(t.Context(), confine.Executable, "confined", what)
	cmd.Stderr = said
	cmd.SysProcAttr = confine.Attributes(65534, nil)
	if out, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.Do(func() { err = cmd.Start() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); s.Close() })
	return cmd, out, said
}

func TestNoWayOut(t *testing.T) {
	cmd, out, said := start(t, "escape")
	lines := bufio.NewScanner(out)
	n := 0
	for lines.Scan() {
		n++
		name, err, _ := strings.Cut(lines.Text(), ": ")
		if !strings.Contains(err, "operation not permitted") {
			t.Errorf("%s: %s", name, err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %.2000s", err, said)
	}
	if want := len(attempts(0, 0, 0)); n != want {
		t.Errorf("%d attempts, want %d", n, want)
	}
}

func TestWhatItNeeds(t *testing.T) {
	cmd, out, said := start(t, "use")
	text, _ := io.ReadAll(out)
	if err := cmd.Wait(); err != nil || !strings.Contains(string(text), "works at true") {
		t.Errorf("%q, %v: %.2000s", text, err, said)
	}
}

func TestWhoItIs(t *testing.T) {
	cmd, out, _ := start(t, "limits") // it ends when the test does
	lines := bufio.NewScanner(out)
	got := map[string]string{}
	for got["uid"] == "" && lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		got[name] = value
	}
	if got["core"] != "0" || got["nofile"] != strconv.Itoa(confine.Descriptors) {
		t.Errorf("limits %v", got)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	field := func(name string) []string {
		for line := range strings.Lines(string(status)) {
			if value, ok := strings.CutPrefix(line, name+":"); ok {
				return strings.Fields(value)
			}
		}
		return nil
	}
	who := strconv.Itoa(os.Geteuid())
	if os.Geteuid() == 0 {
		who = "65534"
	}
	if uid := field("Uid"); !slices.Equal(uid, []string{who, who, who, who}) {
		t.Errorf("it runs as %v, want %s", uid, who)
	}
	for name, want := range map[string]string{"NoNewPrivs": "1", "Seccomp": "2", "CapEff": "0000000000000000"} {
		if got := field(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s is %v, want %s", name, got, want)
		}
	}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/status", cmd.Process.Pid, task.Name()))
		if err == nil && !strings.Contains(string(text), "Seccomp:\t2") {
			t.Errorf("thread %s has no filter", task.Name())
		}
	}
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	score, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	before, _ := strconv.Atoi(strings.TrimSpace(string(own)))
	if after, _ := strconv.Atoi(strings.TrimSpace(string(score))); after != min(before+500, 1000) {
		t.Errorf("its score for the kernel that is out of memory is %d, and this one's %d", after, before)
	}
	if stack, err := strconv.Atoi(got["stack"]); err != nil || stack > 8<<20 {
		t.Errorf("its stack may be %q bytes large", got["stack"])
	}
	if sid, err := unix.Getsid(cmd.Process.Pid); err != nil || sid != cmd.Process.Pid {
		t.Errorf("session %d, %v", sid, err)
	}
}

// TestItEndsWithItsStarter: no process outlives the agent.
func TestItEndsWithItsStarter(t *testing.T) {
	s, err := confine.NewStarter(false)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), confine.Executable, "confined", "limits")
	cmd.SysProcAttr = confine.Attributes(65534, nil)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	s.Do(func() { err = cmd.Start() })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("it ended with %v", err)
	}
}

// TestStarterIsNotTheMainThread: Go never ends that thread, and what it starts would outlive the starter.
func TestStarterIsNotTheMainThread(t *testing.T) {
	for range 1000 {
		s, err := confine.NewStarter(false)
		if err != nil {
			t.Fatal(err)
		}
		var thread int
		s.Do(func() { thread = unix.Gettid() })
		s.Close()
		if thread == os.Getpid() {
			t.Fatal("a starter has the main thread")
		}
	}
}

// TestCgroups: what is written where, in a folder that stands for the file system of
// control groups.
func TestCgroups(t *testing.T) {
	dir := t.TempDir()
	groups, err := confine.OpenCgroups(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := groups.Make("worker-1"); err != nil { // which an earlier agent left
		t.Fatal(err)
	}
	left := time.Unix(1_000_000, 0)
	if err := os.Chtimes(filepath.Join(dir, "worker-1"), left, left); err != nil {
		t.Fatal(err)
	}
	g, err := groups.Make("worker-1")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "worker-1")); err != nil || info.ModTime().Equal(left) {
		t.Errorf("what was left is used again: %v", err)
	}
	if err := g.Limit(64<<20, 500); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"cgroup.subtree_control": "+memory +cpu +pids", "worker-1/memory.max": "67108864", "worker-1/memory.oom.group": "1",
		"worker-1/cpu.max": "50000 100000", "worker-1/cpu.weight": "50", "worker-1/pids.max": "512", "worker-1/memory.swap.max": "0",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v, want %q", name, got, err, want)
		}
	}
	if err := g.Limit(64<<20, 0); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "worker-1/cpu.max")); string(got) != "max 100000" {
		t.Errorf("without a share, cpu.max has %q", got)
	}
	if g.OutOfMemory() {
		t.Error("out of memory before it ran")
	}
	if err := os.WriteFile(filepath.Join(dir, "worker-1/memory.events"), []byte("low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !g.OutOfMemory() {
		t.Error("the kernel's kill is not seen")
	}
	if _, err := confine.OpenCgroups(filepath.Join(dir, "none")); err == nil {
		t.Error("a folder that is not there is divided")
	}
}

// TestThreadsAreBounded: the kernel bounds the threads of a process that has a user of its own,
// also if it does not heed Go's bound.
func TestThreadsAreBounded(t *testing.T) {
	needs.Root(t, "runs a process as another user")
	cmd, out, said := start(t, "threads")
	text, _ := io.ReadAll(out)
	refused := func() bool { // in the words of Go, and of C
		return strings.Contains(said.String(), "failed to create new OS thread") || strings.Contains(said.String(), "pthread_create failed")
	}
	if err := cmd.Wait(); err == nil || len(text) > 0 || !refused() {
		t.Errorf("%q, %v: %.2000s", text, err, said)
	}
}
