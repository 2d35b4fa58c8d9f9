// Package h2test speaks HTTP/2 to gRPC servers frame by frame, as hostile clients do.
package h2test

import (
	"bytes"
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// firstWindow is what HTTP/2 lets a client send before it hears from the server.
const firstWindow = 65535

// maxFrame is the largest body of a frame.
const maxFrame = 16 << 10

// Client is one connection. One goroutine sends.
type Client struct {
	conn    net.Conn
	framer  *http2.Framer
	headers bytes.Buffer
	encoder *hpack.Encoder
	last    uint32

	mu       sync.Mutex
	changed  sync.Cond
	window   int64
	windows  map[uint32]int64
	statuses map[uint32]string
	pongs    int
	updates  int // of windows
	closed   bool
}

// New begins to speak over conn, which it owns.
func New(t *testing.T, conn net.Conn, settings ...http2.Setting) *Client {
	t.Helper()
	c := &Client{
		conn: conn, framer: http2.NewFramer(conn, conn),
		window: firstWindow, windows: map[uint32]int64{}, statuses: map[uint32]string{},
	}
	c.changed.L = &c.mu
	c.encoder = hpack.NewEncoder(&c.headers)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, _ = conn.Write([]byte(http2.ClientPreface))
	_ = c.framer.WriteSettings(settings...)
	go c.receive()
	t.Cleanup(func() { _ = conn.Close() })
	return c
}

// receive reads what the server sends, until it closes the connection.
func (c *Client) receive() {
	for {
		frame, err := c.framer.ReadFrame()
		c.mu.Lock()
		switch f := frame.(type) {
		case *http2.WindowUpdateFrame:
			c.updates++
			if f.StreamID == 0 {
				c.window += int64(f.Increment)
			} else {
				c.windows[f.StreamID] += int64(f.Increment)
			}
		case *http2.MetaHeadersFrame:
			for _, field := range f.Fields {
				if field.Name == "grpc-status" {
					c.statuses[f.StreamID] = field.Value
				}
			}
		case *http2.PingFrame:
			c.pongs++
		}
		if err != nil {
			c.closed = true
		}
		c.changed.Broadcast()
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Field returns a field of headers.
func Field(name, value string) hpack.HeaderField { return hpack.HeaderField{Name: name, Value: value} }

// Close closes the connection.
func (c *Client) Close() { _ = c.conn.Close() }

// Call opens a stream with the headers of a gRPC call, and the fields.
func (c *Client) Call(method string, fields ...hpack.HeaderField) (stream uint32) {
	c.headers.Reset()
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: method},
		{Name: ":authority", Value: "localhost"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	}, fields...) {
		_ = c.encoder.WriteField(f)
	}
	return c.Open(c.headers.Bytes())
}

// Open opens a stream with compressed headers that fit into a frame.
func (c *Client) Open(headers []byte) (stream uint32) {
	c.last = max(c.last+2, 1)
	if c.last%2 == 0 {
		c.last--
	}
	c.mu.Lock()
	c.windows[c.last] = firstWindow
	c.mu.Unlock()
	_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: c.last, BlockFragment: headers, EndHeaders: true})
	return c.last
}

// Reset resets a stream.
func (c *Client) Reset(stream uint32) { _ = c.framer.WriteRSTStream(stream, http2.ErrCodeCancel) }

// Prefix returns what comes before a message of so many bytes.
func Prefix(size int) []byte { return binary.BigEndian.AppendUint32([]byte{0}, uint32(size)) }

// Send sends bytes of a stream, and its end.
func (c *Client) Send(stream uint32, p []byte) { _ = c.framer.WriteData(stream, true, p) }

// Push sends bytes of a stream as far as the server's windows allow at once, and returns how
// many it sent.
func (c *Client) Push(stream uint32, p []byte) (sent int) {
	for sent < len(p) {
		c.mu.Lock()
		n := min(int64(len(p)-sent), maxFrame, c.window, c.windows[stream])
		if n > 0 {
			c.window -= n
			c.windows[stream] -= n
		}
		closed := c.closed
		c.mu.Unlock()
		if n <= 0 || closed || c.framer.WriteData(stream, false, p[sent:sent+int(n)]) != nil {
			return sent
		}
		sent += int(n)
	}
	return sent
}

// Fill makes calls that announce messages of so many bytes, and sends as much of them as the
// server takes, but the last byte of each, and 128 MiB in all: a server without bounds must not
// fill the machine.
func (c *Client) Fill(method string, calls, size int) {
	const most, quiet = 128 << 20, 200 * time.Millisecond // without a larger window
	sent := 0
	streams, rest := make([]uint32, calls), make([]int, calls)
	for i := range streams {
		streams[i], rest[i] = c.Call(method), size-1
		c.Push(streams[i], Prefix(size))
	}
	junk := make([]byte, firstWindow)
	for !c.Closed() && sent < most {
		progress, left := false, false
		for i, id := range streams {
			n := c.Push(id, junk[:min(len(junk), rest[i])])
			rest[i], sent = rest[i]-n, sent+n
			progress, left = progress || n > 0, left || rest[i] > 0
		}
		if !left {
			return
		}
		c.mu.Lock()
		updates := c.updates
		c.mu.Unlock()
		if !progress && !c.await(quiet, func() bool { return c.updates > updates }) {
			return
		}
	}
}

// await waits until the condition holds or the server has closed the connection. It reports
// whether one of them came in time.
func (c *Client) await(within time.Duration, holds func() bool) bool {
	late := false
	defer time.AfterFunc(within, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		late = true
		c.changed.Broadcast()
	}).Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !late && !c.closed && !holds() {
		c.changed.Wait()
	}
	return c.closed || holds()
}

// Sync waits until the server has read everything, or has closed the connection. Servers take
// few of these from a client.
func (c *Client) Sync(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	want := c.pongs + 1
	c.mu.Unlock()
	_ = c.framer.WritePing(false, [8]byte{1})
	if !c.await(time.Minute, func() bool { return c.pongs >= want }) {
		t.Error("the server neither read the frames nor closed the connection")
	}
}

// Status waits for the gRPC status of a stream, such as "4". It is "" if the server has closed
// the connection.
func (c *Client) Status(t *testing.T, stream uint32) string {
	t.Helper()
	if !c.await(time.Minute, func() bool { return c.statuses[stream] != "" }) {
		t.Errorf("the stream %d got no status", stream)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.statuses[stream]
}

// AwaitStatuses waits until so many streams have a status, or the server has closed the
// connection.
func (c *Client) AwaitStatuses(t *testing.T, streams int) {
	t.Helper()
	if !c.await(time.Minute, func() bool { return len(c.statuses) >= streams }) {
		t.Errorf("fewer than %d streams got a status", streams)
	}
}

// Closed reports whether the server has closed the connection.
func (c *Client) Closed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// AwaitClosed waits until the server has closed the connection.
func (c *Client) AwaitClosed(t *testing.T) {
	t.Helper()
	if !c.await(time.Minute, func() bool { return false }) {
		t.Error("the server did not close the connection")
	}
}
