package spopsock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
)

// serve starts a server and returns it and its socket's path.
func serve(tb testing.TB, opts Options) (*Server, string) {
	tb.Helper()
	if opts.Executor == nil {
		opts.Executor = gatewaytest.New()
	}
	opts.Logger = slog.New(slog.DiscardHandler)
	path := filepath.Join(tb.TempDir(), "spop.sock")
	l, err := gateway.Listen(path)
	if err != nil {
		tb.Fatal(err)
	}
	s := New(opts)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			tb.Errorf("shutdown: %v", err)
		}
		if err := <-served; !errors.Is(err, ErrClosed) {
			tb.Errorf("Serve returned %v", err)
		}
	})
	return s, path
}

// client is a connection on which tests write bytes of their choice.
type client struct {
	t testing.TB
	net.Conn
}

func dial(tb testing.TB, path string) *client {
	tb.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		tb.Fatal(err)
	}
	return &client{tb, conn}
}

// connect dials and shakes hands.
func connect(tb testing.TB, path, able string) *client {
	tb.Helper()
	c := dial(tb, path)
	c.send(hello("2.0", 16380, able))
	if kind, _, pairs := c.receive(); kind != frameAgentHello || pairs["version"].text != "2.0" {
		tb.Fatalf("got a frame of type %d: %v", kind, pairs)
	}
	return c
}

func (c *client) send(frames ...[]byte) {
	c.t.Helper()
	for _, f := range frames {
		if _, err := c.Write(f); err != nil {
			c.t.Fatal(err)
		}
	}
}

// frame reads one frame.
func (c *client) frame() (*decoder, header, error) {
	var length [lengthSize]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return nil, header{}, err
	}
	text := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(c, text); err != nil {
		return nil, header{}, err
	}
	d := &decoder{text: string(text)}
	h, err := parseHeader(d)
	return d, h, err
}

// receive reads one frame, and the pairs or variables that it has.
func (c *client) receive() (frameKind, header, map[string]value) {
	c.t.Helper()
	d, h, err := c.frame()
	if err != nil {
		c.t.Fatal(err)
	}
	pairs := map[string]value{}
	for d.more() {
		if h.kind == frameAck {
			if action := d.bytes(3); action != "\x01\x03\x02" {
				c.t.Fatalf("the action is %q", action)
			}
		}
		name := d.string()
		pairs[name] = d.value()
	}
	if d.failed {
		c.t.Fatal("the frame is malformed")
	}
	return h.kind, h, pairs
}

// expectEnd expects that the server ends the connection, and says why.
func (c *client) expectEnd(want status, reason string) {
	c.t.Helper()
	kind, _, pairs := c.receive()
	if kind != frameAgentDisconnect || status(pairs["status-code"].number) != want || !strings.Contains(pairs["message"].text, reason) {
		c.t.Fatalf("got a frame of type %d: %v; want the status %d and %q", kind, pairs, want, reason)
	}
	c.expectClosed()
}

func (c *client) expectClosed() {
	c.t.Helper()
	if rest, err := io.ReadAll(c); err != nil && !strings.Contains(err.Error(), "reset") || len(rest) > 0 {
		c.t.Fatalf("got %.100q (%v), want the end", rest, err)
	}
}

// expectAnswer expects an answer to the question with this number that sets the variables, and no
// others: "allow=true version=7".
func (c *client) expectAnswer(id uint64, want string) {
	c.t.Helper()
	kind, h, got := c.receive()
	if kind != frameAck || h.stream != id || h.frame != id+1 {
		c.t.Fatalf("got a frame of type %d for %d/%d: %v; want the answer to %d", kind, h.stream, h.frame, got, id)
	}
	if text := list(got); text != want {
		c.t.Fatalf("got the variables\n%s\nwant\n%s", text, want)
	}
}

func (c *client) expectClean() {
	c.t.Helper()
	c.send(appendFrame(nil, header{kind: frameDisconnect, flags: flagFinal}, nil))
	c.expectEnd(statusNormal, "")
}

// hello is a HELLO frame.
func hello(versions string, most uint64, able string, more ...string) []byte {
	return appendFrame(nil, header{kind: frameHello, flags: flagFinal}, func(dst []byte) []byte {
		dst = appendPair(dst, "supported-versions", textValue(versions))
		dst = appendPair(dst, "max-frame-size", numberValue(most))
		dst = appendPair(dst, "capabilities", textValue(able))
		for _, name := range more {
			dst = appendPair(dst, name, boolValue(true))
		}
		return appendPair(dst, "engine-id", textValue("F00D"))
	})
}

// arg is an argument of a message.
type arg struct {
	name  string
	value value
}

func text(name, s string) arg { return arg{name, textValue(s)} }

// message is one that asks.
func message(dst []byte, name string, args ...arg) []byte {
	dst = append(appendString(dst, name), byte(len(args)))
	for _, a := range args {
		dst = appendPair(dst, a.name, a.value)
	}
	return dst
}

// ask is a frame with the question id.
func ask(id uint64, args ...arg) []byte {
	return appendFrame(nil, header{kind: frameNotify, flags: flagFinal, stream: id, frame: id + 1}, func(dst []byte) []byte {
		return message(dst, messageName, args...)
	})
}

// list writes variables in order of their names.
func list(vars map[string]value) string {
	var b strings.Builder
	for _, name := range sorted(vars) {
		fmt.Fprintf(&b, " %s=%s", name, vars[name])
	}
	return strings.TrimPrefix(b.String(), " ")
}
