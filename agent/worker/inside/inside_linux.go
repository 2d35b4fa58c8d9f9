package inside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/worker/confine"
	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	"github.com/scriptorium-dev/scriptorium/engine"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
)

// Config of a process.
type Config struct {
	// Engines that run programs.
	Engines []engine.Engine
	// Version of the software, for those who ask on a socket.
	Version string
}

// Run confines this process and serves the tenant that it is assigned, until its
// agent is gone or ends it. It takes the process over, and returns only errors.
func Run(cfg Config) error {
	if err := confine.SmallStacks(); err != nil {
		return err
	}
	// All that takes a file is read before there are no files.
	_, _ = time.Now().Local().Zone()
	control, err := link.Conn(link.ControlFD)
	if err != nil {
		return fmt.Errorf("this command is started by an agent alone: %w", err)
	}
	served, err := link.Conn(link.WorkerFD)
	if err != nil {
		return fmt.Errorf("this command is started by an agent alone: %w", err)
	}
	asked, err := link.Conn(link.HomeFD)
	if err != nil {
		return fmt.Errorf("this command is started by an agent alone: %w", err)
	}
	receiver, err := link.Descriptor(control)
	if err != nil {
		return err
	}
	confined, err := confine.Self(receiver)
	if err != nil {
		return err
	}
	p := &process{cfg: cfg, confined: confined, log: slog.New(slog.NewJSONHandler(os.Stderr, nil))}
	if confined.NotFirst != nil {
		p.log.Warn("this process is not the first to go if the machine runs out of memory", "error", confined.NotFirst)
	}
	if _, err := control.Write([]byte("ready")); err != nil { // it cannot send what link.Send does
		return fmt.Errorf("say to the agent that the process is ready: %w", err)
	}
	if err := p.assigned(control); err != nil {
		return err
	}
	s, err := p.start(served, asked)
	if err != nil {
		return err
	}
	for { // what comes now are connections for calls
		_, files, err := link.Receive(control)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the agent is gone: %w", err)
		}
		for _, f := range files {
			go s.answerCalls(f)
		}
	}
}

// process is this one, once it has a tenant.
type process struct {
	cfg      Config
	confined *confine.Confined
	log      *slog.Logger

	assignment workerv1.Assignment
	page       *link.Page
	listeners  []net.Listener // as the assignment's sockets
}

// assigned waits for the tenant and takes over what comes with it.
func (p *process) assigned(control *net.UnixConn) error {
	packet, files, err := link.Receive(control)
	if errors.Is(err, io.EOF) { // a spare that nobody needs any more
		os.Exit(0)
	}
	if err != nil {
		return fmt.Errorf("receive the assignment: %w", err)
	}
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	if err := proto.Unmarshal(packet, &p.assignment); err != nil {
		return fmt.Errorf("read the assignment: %w", err)
	}
	if len(files) != 1+len(p.assignment.GetSockets()) {
		return fmt.Errorf("%d descriptors came with an assignment of %d sockets", len(files), len(p.assignment.GetSockets()))
	}
	if p.page, err = link.MapPage(files[0]); err != nil {
		return err
	}
	for _, f := range files[1:] {
		l, err := net.FileListener(f)
		if err != nil {
			return fmt.Errorf("take over a socket: %w", err)
		}
		p.listeners = append(p.listeners, l)
	}
	p.log = p.log.With("pid", os.Getpid())
	runtime.GOMAXPROCS(int(p.assignment.GetProcessors()))
	return p.confined.Memory(p.assignment.GetMemoryBytes(), p.assignment.GetCapped())
}

// start answers the agent from now on.
func (p *process) start(served, asked net.Conn) (*service, error) {
	conn, err := link.Dial(asked)
	if err != nil {
		return nil, err
	}
	s, err := newService(p, workerv1.NewHomeClient(conn))
	if err != nil {
		return nil, err
	}
	server := link.NewServer()
	workerv1.RegisterWorkerServer(server, s)
	go link.Serve(server, served)
	go p.beat(context.Background())
	return s, nil
}

// beatEvery is how often the process says that it still turns.
const beatEvery = 100 * time.Millisecond

func (p *process) beat(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		p.page.Beat()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
