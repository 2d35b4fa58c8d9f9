package hostile

import (
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// attack is one idea of how bytes could do harm.
type attack struct {
	family string
	idea   string
	// socket that it goes to: "resp", "http", "grpc", "spop", "port", or "admin"; of a registry "grpc", or "tcp".
	socket string
	from   []int // users; nil: bad
	// most is by how many MiB the memory of the agent may grow; 0: usual.
	most int64
	// own has it go to the socket of the tenant with a process, too.
	own bool
	run func(*arena)
}

// By how many MiB the memory of a process may grow. The collector lets it become twice what is
// held, and leaves room for 64 MiB of garbage.
const (
	usual      = 96
	strangers  = 160 // may hold 32 MiB together
	unknown    = 220 // may hold 64 MiB of a registry together
	oneCaller  = 360 // may hold 128 MiB
	allCallers = 620 // may hold 256 MiB
)

// target is what attacks go to.
type target interface {
	// connect connects as the user, or as the kind of client.
	connect(socket string, user int) (net.Conn, error)
	// served fails the test if a new caller is not served.
	served(t *testing.T)
	process() *victim
}

// arena is where an attack happens.
type arena struct {
	*testing.T
	target target
	socket string
	from   []int

	mu    sync.Mutex
	conns []net.Conn
	turn  int
}

// writeTime is how long a client tries to send what the agent does not take.
const writeTime = 50 * time.Millisecond

// dial connects as the next of the users. The connection ends with the attack.
func (a *arena) dial() net.Conn {
	a.mu.Lock()
	defer a.mu.Unlock()
	user := a.from[a.turn%len(a.from)]
	a.turn++
	conn, err := a.target.connect(a.socket, user)
	if err != nil {
		a.Errorf("connect: %v", err)
		conn, _ = net.Pipe()
	}
	a.conns = append(a.conns, conn)
	return conn
}

// connect implements target.
func (a *agent) connect(socket string, user int) (net.Conn, error) {
	switch socket {
	case "admin":
		return net.Dial("tcp", a.admin)
	case "port":
		return net.Dial("tcp", a.port)
	}
	return dialAs(user, a.path(socket))
}

// dialAs connects to a Unix socket as the user, whom the kernel then names to the agent.
func dialAs(user int, path string) (net.Conn, error) {
	const same = ^uintptr(0)
	runtime.LockOSThread()
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(user), same); errno != 0 {
		runtime.UnlockOSThread()
		return nil, errno
	}
	conn, err := net.Dial("unix", path)
	for errors.Is(err, syscall.EAGAIN) { // more wait to be accepted than may
		runtime.Gosched()
		conn, err = net.Dial("unix", path)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, 0, same); errno != 0 {
		return nil, errno // and the thread ends with its goroutine
	}
	runtime.UnlockOSThread()
	return conn, err
}

// send writes as much as the agent takes, and reports whether that was all.
func send(conn net.Conn, data string) bool {
	_ = conn.SetWriteDeadline(time.Now().Add(writeTime))
	_, err := io.WriteString(conn, data)
	return err == nil
}

// drain reads what comes, until the connection ends.
func drain(conn net.Conn) { go func() { _, _ = io.Copy(io.Discard, conn) }() }

// each opens so many connections, and sends the data on each. Nobody reads from them.
func (a *arena) each(n int, data string) {
	for range n {
		send(a.dial(), data)
	}
}

// atOnce is each with several clients, for data that the agent may not take.
func (a *arena) atOnce(n int, data string) {
	var sending errgroup.Group
	sending.SetLimit(64)
	for range n {
		sending.Go(func() error { send(a.dial(), data); return nil })
	}
	_ = sending.Wait()
}

// answers sends data, ends the sending side, and reads the answers.
func (a *arena) answers(data string) string {
	conn := a.dial()
	var all strings.Builder
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		_, _ = io.Copy(&all, conn)
	}()
	send(conn, data)
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	<-done
	return all.String()
}

// close ends all connections.
func (a *arena) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.conns {
		_ = c.Close()
	}
	a.conns = nil
}
