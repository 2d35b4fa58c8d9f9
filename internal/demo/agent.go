package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/local"
)

// agent is an agentd process.
type agent struct {
	node    *node
	command []string
	log     string

	process *os.Process   // nil when it does not run
	exited  chan struct{} // closed once exit is set
	exit    error
}

// newAgent returns an agent, not started yet, whose sockets are in dir.
func newAgent(command []string, name, dir string, stack *local.Stack) (*agent, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	node, err := openNode(name, dir)
	if err != nil {
		return nil, err
	}
	a := &agent{node: node, log: filepath.Join(dir, "agent.log")}
	a.command = slices.Concat(command, []string{
		"--name", name, "--state-dir", filepath.Join(dir, "state"), "--socket-dir", dir,
		"--registry", stack.RegistryTarget(), "--nats-url", stack.NATSURL(), "--log-format", "text",
	}, stack.AgentFlags())
	return a, nil
}

// start starts the process and waits until its sockets answer.
func (a *agent) start(ctx context.Context) error {
	log, err := os.OpenFile(a.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own
	// Its life is not that of the step that starts it: kill and stop end it.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), a.command[0], a.command[1:]...) //nolint:gosec // our own program
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = endWithUs()
	if err := cmd.Start(); err != nil {
		return err
	}
	a.process, a.exited = cmd.Process, make(chan struct{})
	go func() {
		defer close(a.exited)
		a.exit = cmd.Wait()
	}()
	if err := a.serving(ctx); err != nil {
		text, _ := os.ReadFile(a.log)
		return fmt.Errorf("%s does not answer: %w\n%s", a.node.name, err, text)
	}
	return nil
}

// serving waits until the agent answers, it has exited, or startPatience is at its end.
func (a *agent) serving(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	go func() {
		select {
		case <-a.exited:
			cancel()
		case <-ctx.Done():
		}
	}()
	var d net.Dialer
	return poll(ctx, func() error {
		conn, err := d.DialContext(ctx, "unix", a.node.socket)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// kill ends the process as a crash does.
func (a *agent) kill() error {
	if err := a.process.Kill(); err != nil {
		return err
	}
	<-a.exited
	a.process = nil
	return nil
}

func (a *agent) stop() error {
	a.node.close()
	if a.process == nil {
		return nil
	}
	if err := a.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-a.exited
	if a.exit != nil {
		return fmt.Errorf("%s: %w", a.node.name, a.exit)
	}
	return nil
}

// answers waits until the node answers as wanted.
func (n *node) answers(ctx context.Context, ref, want string) error {
	return poll(ctx, func() error {
		got, err := n.resp(ctx, ref, argument)
		if err == nil && got != want {
			err = fmt.Errorf("%s answers %s, not %s", n.name, got, want)
		}
		return err
	})
}

// poll tries until there is no error, or returns the last one when ctx is done.
func poll(ctx context.Context, try func() error) error {
	ticker := time.NewTicker(500 * time.Microsecond)
	defer ticker.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}
