package spopsock

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
	"github.com/scriptorium-dev/scriptorium/internal/memtest"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

func mustAck(tb testing.TB) []byte {
	tb.Helper()
	ack, err := appendAck(nil, header{stream: 1, frame: 2}, decision.Allowed, ran{}, 16384)
	if err != nil {
		tb.Fatal(err)
	}
	return ack
}

// bystander asks all through a test and fails it if any answer is wrong.
func bystander(t *testing.T, path string) {
	t.Helper()
	c := connect(t, path, "pipelining")
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if _, err := c.Write(ask(1, text("script", "acme/nothing"))); err != nil {
				done <- err
				return
			}
			if _, h, err := c.frame(); err != nil || h.kind != frameAck {
				done <- fmt.Errorf("a frame of type %d: %w", h.kind, err)
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		if err := <-done; err != nil {
			t.Errorf("a bystander noticed: %v", err)
		}
	})
}

func TestBadFramesEndInADisconnect(t *testing.T) {
	_, path := serve(t, Options{})
	bystander(t, path)
	notify := func(payload string) []byte {
		return appendFrame(nil, header{kind: frameNotify, flags: flagFinal, stream: 1, frame: 1}, func(dst []byte) []byte { return append(dst, payload...) })
	}
	overflow := strings.Repeat("\xff", 9) + "\x7f"
	for name, tt := range map[string]struct {
		in     string
		status status
		reason string
	}{
		"the largest length":         {"\xff\xff\xff\xff", statusTooBig, "a frame of 4294967295 bytes"},
		"one byte too many":          {"\x00\x00\x3f\xfd", statusTooBig, "a frame of 16381 bytes: at most 16380"},
		"no length":                  {"\x00\x00\x00\x00", statusInvalid, "no room"},
		"a head of numbers":          {"\x00\x00\x00\x10\x03\x00\x00\x00\x01" + overflow + "\x00", statusInvalid, "head of a frame"},
		"half a number":              {"\x00\x00\x00\x07\x03\x00\x00\x00\x01\x01\xf0", statusInvalid, "head of a frame"},
		"no messages":                {string(notify("")), statusInvalid, "messages of NOTIFY"},
		"a message without an end":   {string(notify("\x0bscriptorium")), statusInvalid, "messages of NOTIFY"},
		"fewer arguments than said":  {string(notify("\x0bscriptorium\xff\x04fail\x08\x04open")), statusInvalid, "messages of NOTIFY"},
		"a name that is long":        {string(notify("\x0bscriptorium\x01" + overflow)), statusInvalid, "messages of NOTIFY"},
		"a text that is long":        {string(notify("\x0bscriptorium\x01\x04body\x09\xff\xf0\xfe\xfe\xfe\xfe\xfe\xfe\xfe\x0e")), statusInvalid, "messages of NOTIFY"},
		"an unknown type":            {string(notify("\x0bscriptorium\x01\x04body\x0c")), statusInvalid, "messages of NOTIFY"},
		"a first fragment":           {string(appendFrame(nil, header{kind: frameNotify, stream: 1, frame: 1}, nil)), statusFragmentation, "does not announce fragmentation"},
		"a last fragment":            {string(appendFrame(nil, header{kind: frameUnset, flags: flagFinal, stream: 1, frame: 1}, nil)), statusFragmentation, "does not announce fragmentation"},
		"a second handshake":         {string(hello("2.0", 16380, "")), statusInvalid, "second HELLO"},
		"a question, then a mistake": {string(appendFrame(nil, header{kind: 77, flags: flagFinal}, nil)) + "\xff\xff\xff\xff", statusTooBig, "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, path, "pipelining")
			go io.WriteString(c, tt.in) // all of it may not be taken
			c.expectEnd(tt.status, tt.reason)
		})
	}
}

// TestDocumentedStatuses holds the table of docs/protocol.md.
func TestDocumentedStatuses(t *testing.T) {
	_, path := serve(t, Options{})
	_, slow := serve(t, Options{RequestTimeout: 10 * time.Millisecond})
	_, full := serve(t, Options{Connections: budget.NewConnections(0, 1<<30)})
	greeting := string(hello("2.0", 16380, ""))
	sent := map[string]struct{ path, bytes string }{
		"`HELLO` without a version 2":                                 {path, string(hello("1.0", 16380, ""))},
		"`HELLO` with a `max-frame-size` below 256":                   {path, string(hello("2.0", 255, ""))},
		"a frame of more than 16,384 bytes, or than `max-frame-size`": {path, greeting + "\x00\x00\x3f\xfd"},
		"a fragment": {path, greeting + "\x00\x00\x00\x07\x03\x00\x00\x00\x00\x01\x01"},
		"bytes that are no frame, or a frame that is not for its place": {path, greeting + greeting},
		"half a frame, and not the rest within 30 seconds":              {slow, greeting + "\x00"},
		"a connection beyond the [bound](isolation.md#hostile-bytes)":   {full, ""},
	}
	text, err := page.ReadSection("../../../docs/protocol.md", "SPOP: `spop.sock`")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range page.Rows(text) {
		tt, ok := sent[row[0]]
		if !ok {
			continue // the head of the table
		}
		delete(sent, row[0])
		c := dial(t, tt.path)
		_, _ = io.WriteString(c, tt.bytes) // all of it may not be taken
		kind, _, pairs := c.receive()
		if kind == frameAgentHello {
			kind, _, pairs = c.receive()
		}
		if kind != frameAgentDisconnect || pairs["status-code"].String() != row[1] {
			t.Errorf("%s: a frame of type %d with the status %s, the page says %s", row[0], kind, pairs["status-code"], row[1])
		}
	}
	if len(sent) > 0 {
		t.Errorf("the page lacks %v", sent)
	}
}

func TestUnknownFramesAreSkipped(t *testing.T) {
	_, path := serve(t, Options{})
	c := connect(t, path, "pipelining")
	for _, kind := range []frameKind{4, 77, frameAck, frameAgentHello, 255} {
		c.send(appendFrame(nil, header{kind: kind, stream: 1}, func(dst []byte) []byte { return append(dst, "\xff\xff"...) }))
	}
	c.send(ask(1, text("script", "acme/nothing")))
	c.expectAnswer(1, "allow=true version=7")
}

// TestAReasonIsReadByWhoSendsOn: the socket's buffers hold far less than this.
func TestAReasonIsReadByWhoSendsOn(t *testing.T) {
	_, path := serve(t, Options{})
	c := connect(t, path, "pipelining")
	c.send(append([]byte("\xff\xff\xff\xff"), make([]byte, lingerBytes-100<<10)...))
	c.expectEnd(statusTooBig, "")
}

func TestGarbage(t *testing.T) {
	_, path := serve(t, Options{RequestTimeout: 100 * time.Millisecond})
	bystander(t, path)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 100 {
		garbage := make([]byte, r.IntN(2000))
		for i := range garbage {
			garbage[i] = byte(r.Uint32())
		}
		c := dial(t, path)
		if i%2 == 0 { // in a frame
			_, _ = c.Write(hello("2.0", 16380, "async"))
			garbage = appendFrame(nil, header{kind: frameNotify, flags: flagFinal}, func(dst []byte) []byte { return append(dst, garbage...) })
		}
		_, _ = c.Write(garbage)
		_ = c.Conn.(*net.UnixConn).CloseWrite()
		_, _ = io.Copy(io.Discard, c)
	}
}

func TestTruncatedFramesAreDropped(t *testing.T) {
	_, path := serve(t, Options{})
	bystander(t, path)
	whole := ask(1, text("script", "acme/nothing"))
	for n := range whole {
		c := connect(t, path, "pipelining")
		c.send(whole[:n])
		_ = c.Conn.(*net.UnixConn).CloseWrite()
		c.expectClosed()
	}
}

func TestAFrameInPieces(t *testing.T) {
	_, path := serve(t, Options{})
	c := connect(t, path, "pipelining")
	for _, b := range append(ask(1, text("script", "acme/nothing")), ask(2, text("script", "acme/nothing"), text("body", strings.Repeat("x", 500)))...) {
		c.send([]byte{b})
	}
	c.expectAnswer(1, "allow=true version=7")
	c.expectAnswer(2, "allow=true version=7")
}

func TestFramesOfAllSizes(t *testing.T) {
	_, path := serve(t, Options{})
	c := connect(t, path, "")
	frame := len(ask(1, text("script", "acme/nothing"), text("body", strings.Repeat("x", 2288)))) - lengthSize
	for _, size := range []int{0, 1, 239, 240, 2287, 2288, 8000, 2288 + 16380 - frame, 1} {
		c.send(ask(1, text("script", "acme/nothing"), text("body", strings.Repeat("x", size))), ask(2, text("script", "acme/nothing")))
		c.expectAnswer(1, "allow=true version=7")
		c.expectAnswer(2, "allow=true version=7")
	}
}

func TestSlowFramesAreClosedAndIdleConnectionsAreNot(t *testing.T) {
	_, path := serve(t, Options{RequestTimeout: 50 * time.Millisecond})
	bystander(t, path)
	idle := connect(t, path, "pipelining")
	dial(t, path).expectEnd(statusTimeout, "nothing came for too long") // without HELLO
	whole := ask(1, text("script", "acme/nothing"))
	for _, n := range []int{1, 4, 5, len(whole) - 1} {
		c := connect(t, path, "pipelining")
		c.send(whole, whole[:n])
		c.expectAnswer(1, "allow=true version=7")
		c.expectEnd(statusTimeout, "nothing came for too long")
	}
	idle.send(whole)
	idle.expectAnswer(1, "allow=true version=7")
}

func TestIdleTimeout(t *testing.T) {
	_, path := serve(t, Options{IdleTimeout: 50 * time.Millisecond})
	c := dial(t, path)
	if _, err := c.Write(hello("2.0", 16380, "")); err != nil {
		t.Fatal(err)
	}
	_, err := io.Copy(io.Discard, c)
	if err != nil {
		t.Error(err)
	}
}

// TestManyQuestions: more of them than the socket's buffers hold.
func TestManyQuestions(t *testing.T) {
	_, path := serve(t, Options{})
	bystander(t, path)
	c := connect(t, path, "pipelining")
	const questions = 3000
	go func() {
		for i := range questions {
			_, _ = c.Write(ask(uint64(i), text("script", "acme/nothing"), text("body", strings.Repeat("x", 1000))))
		}
	}()
	seen := map[uint64]bool{}
	for range questions {
		kind, h, _ := c.receive()
		if kind != frameAck || seen[h.stream] {
			t.Fatalf("a frame of type %d for %d", kind, h.stream)
		}
		seen[h.stream] = true
	}
}

func TestAPeerThatNeverReadsIsClosed(t *testing.T) {
	x := gatewaytest.New()
	big := []byte(`{"allow":false,"body":"` + strings.Repeat("x", 10_000) + `"}`)
	x.Set("acme/big", func(context.Context, *gateway.Call) ([][]byte, error) { return [][]byte{big}, nil })
	_, path := serve(t, Options{Executor: x, WriteTimeout: 100 * time.Millisecond})
	bystander(t, path)
	var greedy sync.WaitGroup
	for i := range 8 {
		c := connect(t, path, []string{"", "pipelining"}[i%2])
		greedy.Go(func() {
			for {
				if _, err := c.Write(ask(1, text("script", "acme/big"))); err != nil {
					if errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("the server did not close the connection: %v", err)
					}
					return
				}
			}
		})
	}
	greedy.Wait()
}

// TestHalfFramesOfMany: what they hold is bounded, the oldest make room, and others are served.
func TestHalfFramesOfMany(t *testing.T) {
	const most = 8 << 20
	_, path := serve(t, Options{Budget: budget.New(4 << 20)}) // half of it for one user
	bystander(t, path)
	before := memtest.InUse()
	half := ask(1, text("script", "acme/nothing"), text("body", strings.Repeat("x", 16000)))
	conns := make([]*client, 500)
	for i := range conns {
		conns[i] = connect(t, path, "pipelining")
		conns[i].send(half[:len(half)-1])
	}
	other := connect(t, path, "pipelining")
	other.send(half)
	other.expectAnswer(1, "allow=true version=7")
	if held := memtest.InUse() - before; held > most {
		t.Errorf("half frames hold %d bytes, want at most %d", held, most)
	}
	closed := 0
	for _, c := range conns {
		_, _ = c.Write(half[len(half)-1:])
		if _, h, err := c.frame(); err != nil || h.kind != frameAck {
			closed++
		}
	}
	if closed < 300 || closed == len(conns) {
		t.Errorf("%d of %d were closed, although about 128 fit", closed, len(conns))
	}
}

// TestQuestionsOfMany: what runs is bounded, too, and what has no room is answered.
func TestQuestionsOfMany(t *testing.T) {
	x, begun, finish := gates()
	_, path := serve(t, Options{Executor: x, Budget: budget.New(1 << 20)})
	c := connect(t, path, "pipelining")
	frame := ask(1, text("script", "acme/slow"), text("fail", "open"), text("body", strings.Repeat("x", 16000)))
	const fit = (1 << 19) / ((questionBytes + 1) * 16000) // one more for the argument
	for range fit {
		c.send(frame)
		<-begun
	}
	c.send(frame)
	c.expectAnswer(1, "allow=true reason=OVERLOADED")
	for range fit {
		finish <- struct{}{}
		c.expectAnswer(1, "allow=true version=7")
	}
	c.send(frame) // what was held is given back
	<-begun
	finish <- struct{}{}
	c.expectAnswer(1, "allow=true version=7")
}

func TestMaxConnections(t *testing.T) {
	_, path := serve(t, Options{Connections: budget.NewConnections(2, 1<<30)})
	first, second := connect(t, path, ""), connect(t, path, "")
	dial(t, path).expectEnd(statusResources, "as many connections as it may")
	first.expectClean()
	second.send(ask(1, text("script", "acme/nothing")))
	second.expectAnswer(1, "allow=true version=7")
	for { // the place is free a moment after the end is seen
		c := dial(t, path)
		_, _ = c.Write(hello("2.0", 16380, "")) // which fails if it is refused
		if _, h, err := c.frame(); err == nil && h.kind == frameAgentHello {
			return
		}
	}
}

func TestTenThousandIdleConnections(t *testing.T) {
	_, path := serve(t, Options{Connections: budget.NewConnections(20_000, 1<<30)})
	bystander(t, path)
	reply := appendHello(nil, terms{maxFrame: 16380})
	if len(reply) != lengthSize+int(binary.BigEndian.Uint32(reply)) {
		t.Fatal("the reply is no frame")
	}
	held := gatewaytest.HoldIdle(t, path, string(hello("2.0", 16380, "pipelining")), string(reply))
	const most = 24 << 10
	if held > most {
		t.Errorf("an idle connection holds %d bytes, want at most %d", held, most)
	}
}

// TestAFloodLeavesTurns: the goroutines of others run between the questions of a client that sends
// without end. On a busy machine, they otherwise wait for seconds.
func TestAFloodLeavesTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var served atomic.Int64
	_, path := serve(t, Options{Executor: counting{gatewaytest.New(), &served}})
	c := connect(t, path, "pipelining")
	go func() { _, _ = io.Copy(io.Discard, c) }()
	const questions, most = 5000, 10
	go c.send(bytes.Repeat(ask(1, text("script", "acme/echo")), questions))
	turns := int64(0)
	for before := served.Load(); before < questions; {
		runtime.Gosched()
		if now := served.Load(); now > before {
			before, turns = now, turns+1
		}
	}
	if turns*most < questions {
		t.Errorf("%d questions between two turns of another goroutine, want at most %d", questions/turns, most)
	}
}

// counting is an Executor that counts what it refuses.
type counting struct {
	*gatewaytest.Executor
	calls *atomic.Int64
}

func (x counting) Execute(context.Context, *gateway.Call, *gateway.Reply) error {
	x.calls.Add(1)
	return budget.ErrOverloaded
}
