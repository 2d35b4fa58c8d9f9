package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/proto/grpcguard"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
)

// Descriptors that a process is started with, in the order of exec.Cmd.ExtraFiles.
const (
	ControlFD = 3 + iota // packets: the assignment, then connections for calls
	WorkerFD             // gRPC, served by the process
	HomeFD               // gRPC, served by the agent
)

// MaxMessage is the largest message of either gRPC service, in bytes: a source or a
// value of 1 MiB fits with all that is around it.
const MaxMessage = 8 << 20

// Packets returns a connected pair of sockets that keep the bounds of what is written.
func Packets() (ours *net.UnixConn, theirs *os.File, err error) {
	return pair(unix.SOCK_SEQPACKET)
}

// Stream returns a connected pair of stream sockets.
func Stream() (ours *net.UnixConn, theirs *os.File, err error) { return pair(unix.SOCK_STREAM) }

func pair(kind int) (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socketpair: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "link")
	ours, err := Conn(fds[0])
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return ours, theirs, nil
}

// Conn takes the descriptor over and returns its connection.
func Conn(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "link")
	defer func() { _ = f.Close() }()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("descriptor %d is not a Unix socket", fd), c.Close())
	}
	return conn, nil
}

// Descriptor returns the descriptor of a connection, which stays the connection's.
func Descriptor(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	fd := -1
	err = raw.Control(func(d uintptr) { fd = int(d) })
	return fd, err
}

// maxPacket is the largest packet; maxFiles how many descriptors one has.
const (
	maxPacket = 128 << 10
	maxFiles  = 8
)

// Send sends one packet with the files, which stay the caller's.
func Send(c *net.UnixConn, packet []byte, files []*os.File) error {
	if len(packet) > maxPacket || len(files) > maxFiles {
		return fmt.Errorf("a packet of %d bytes with %d descriptors is too large for a link", len(packet), len(files))
	}
	fds := make([]int, len(files))
	for i, f := range files {
		raw, err := f.SyscallConn() // Fd would make the socket block, in every process
		if err != nil {
			return err
		}
		if err := raw.Control(func(fd uintptr) { fds[i] = int(fd) }); err != nil {
			return err
		}
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, err := c.WriteMsgUnix(packet, rights, nil)
	return err
}

// Receive returns one packet and the files that came with it, which are the
// caller's. It returns io.EOF when the other side is gone.
func Receive(c *net.UnixConn) ([]byte, []*os.File, error) {
	packet, rights := make([]byte, maxPacket), make([]byte, unix.CmsgSpace(4*maxFiles))
	n, nr, _, _, err := c.ReadMsgUnix(packet, rights)
	if err != nil {
		return nil, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:nr])
	if err != nil {
		return nil, nil, fmt.Errorf("read the descriptors of a packet: %w", err)
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return nil, nil, fmt.Errorf("read the descriptors of a packet: %w", err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "handed over"))
		}
	}
	return packet[:n], files, nil
}

// Dial returns a client that speaks over conn, which it owns, and over nothing else:
// when conn ends, so does the client.
func Dial(conn net.Conn) (*grpc.ClientConn, error) {
	once := make(chan net.Conn, 1)
	once <- conn
	return grpc.NewClient("passthrough:///link",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableServiceConfig(),
		grpc.WithMaxHeaderListSize(wire.MaxHeaderBytes),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
		grpc.WithIdleTimeout(0),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			select {
			case c := <-once:
				return c, nil
			default:
				return nil, net.ErrClosed
			}
		}))
}

// What one end of a link may make the other hold, and for how long: a process that shares
// its processor with many may be slow.
const (
	maxHeld     = 128 << 20
	linkTimeout = time.Minute
)

// NewServer returns a server for one connection, which Serve serves.
func NewServer(opts ...grpc.ServerOption) *grpcguard.Server {
	return grpcguard.NewServer(grpcguard.Config{
		Admit: func(ctx context.Context, _ string) (context.Context, string, error) {
			return ctx, "the other end", nil
		},
		Budget:         budget.New(maxHeld),
		Known:          func(credentials.AuthInfo) bool { return true },
		RequestTimeout: linkTimeout,
		ReplyTimeout:   linkTimeout,
	}, append([]grpc.ServerOption{grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage)}, opts...)...)
}

// Serve serves conn, which it owns, until it or the server ends.
func Serve(s *grpcguard.Server, conn net.Conn) {
	l := &single{conn: make(chan net.Conn, 1), closed: make(chan struct{}), addr: conn.LocalAddr()}
	l.conn <- &watched{Conn: conn, gone: l.close}
	_ = s.Serve(l) // it fails only when l is closed, which is how it ends
}

// single is a listener for one connection.
type single struct {
	conn   chan net.Conn
	once   sync.Once
	closed chan struct{}
	addr   net.Addr
}

func (l *single) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *single) close() { l.once.Do(func() { close(l.closed) }) }

func (l *single) Close() error {
	l.close()
	select {
	case c := <-l.conn: // it was never accepted
		return c.Close()
	default:
		return nil
	}
}

func (l *single) Addr() net.Addr { return l.addr }

// watched tells when a connection is closed.
type watched struct {
	net.Conn
	gone func()
}

func (w *watched) Close() error {
	defer w.gone()
	return w.Conn.Close()
}
