package worker

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// newPeer returns a caller, and what a process has of it.
func newPeer(t *testing.T) (*caller, *net.UnixConn) {
	t.Helper()
	ours, their, err := link.Packets()
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.FileConn(their)
	if err != nil {
		t.Fatal(err)
	}
	_ = their.Close()
	theirs := c.(*net.UnixConn)
	called := newCaller(ours)
	t.Cleanup(func() {
		called.close()
		_ = ours.Close()
		_ = theirs.Close()
	})
	return called, theirs
}

// accept returns the next connection for calls.
func accept(control *net.UnixConn) (net.Conn, error) {
	_, files, err := link.Receive(control)
	if err != nil {
		return nil, err
	}
	defer func() { _ = files[0].Close() }()
	return net.FileConn(files[0])
}

var wide = bounds{time: time.Minute, answer: 1 << 20}

// TestACallToOneThatTakesNothing: the agent does not wait for a process that does not
// read what it is sent.
func TestACallToOneThatTakesNothing(t *testing.T) {
	c, _ := newPeer(t)
	done := make(chan error)
	go func() {
		var last error
		for range 5000 { // more than fit between the two, whatever the system's bound
			conn, err := c.take()
			if err != nil {
				last = err
				break
			}
			_ = c.drop(conn)
		}
		done <- last
	}()
	select {
	case err := <-done:
		if script.KindOf(err) != script.Overloaded {
			t.Errorf("got %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it waits")
	}
}

// TestACallThatIsNotAnswered ends in time, and when the process is closed.
func TestACallThatIsNotAnswered(t *testing.T) {
	c, _ := newPeer(t)
	_, _, err := c.call(t.Context(), bounds{time: time.Millisecond, answer: 1}, &workerv1.ExecuteRequest{})
	if script.KindOf(err) != script.Timeout {
		t.Errorf("got %v", err)
	}
	if len(c.busy)+len(c.idle) != 0 {
		t.Errorf("%d connections are left", len(c.busy)+len(c.idle))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := c.call(ctx, wide, &workerv1.ExecuteRequest{}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("canceled: %v", err)
	}

	c, theirs := newPeer(t)
	done := make(chan error)
	go func() {
		_, _, err := c.call(context.Background(), wide, &workerv1.ExecuteRequest{})
		done <- err
	}()
	conn, err := accept(theirs)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	c.close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, _, err := c.call(t.Context(), wide, &workerv1.ExecuteRequest{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after it was closed: %v", err)
	}
}

// TestAnAnswerThatIsTooLarge, and one that nobody asked for, cost no memory and no other
// call.
func TestAnAnswerThatIsTooLarge(t *testing.T) {
	c, theirs := newPeer(t)
	go func() {
		for {
			conn, err := accept(theirs)
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				head := binary.BigEndian.AppendUint32(nil, 2000)
				_, _ = conn.Write(append(head, make([]byte, 2000)...))
				_, _ = io.Copy(io.Discard, conn)
			}()
		}
	}()
	if _, _, err := c.call(t.Context(), bounds{time: time.Minute, answer: 1000}, &workerv1.ExecuteRequest{}); err == nil {
		t.Error("it is taken")
	}
	if len(c.busy)+len(c.idle) != 0 {
		t.Errorf("%d connections are kept", len(c.busy)+len(c.idle))
	}
}
