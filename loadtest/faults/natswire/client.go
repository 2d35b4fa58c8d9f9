package natswire

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Client is one connection to a server: as little of a client as it takes to
// listen in and to publish. It is safe for concurrent use.
type Client struct {
	conn net.Conn
	done chan struct{}

	mu sync.Mutex // guards writes
}

// Dial connects and subscribes to the subjects; heard is called for each message,
// one at a time.
func Dial(ctx context.Context, address string, subjects []string, heard func(subject string, payload []byte)) (*Client, error) {
	dialer := net.Dialer{Timeout: 2 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn, done: make(chan struct{})}
	r := bufio.NewReader(conn)
	hello := "CONNECT {\"verbose\":false,\"pedantic\":false,\"lang\":\"go\",\"version\":\"0\",\"protocol\":1,\"name\":\"stranger\"}\r\n"
	for i, subject := range subjects {
		hello += fmt.Sprintf("SUB %s %d\r\n", subject, i+1)
	}
	if err := c.write([]byte(hello)); err != nil {
		_ = conn.Close()
		return nil, err
	}
	go c.listen(r, heard)
	return c, nil
}

func (c *Client) listen(r *bufio.Reader, heard func(string, []byte)) {
	defer close(c.done)
	for {
		f, err := ReadFrame(r)
		if err != nil {
			return
		}
		switch {
		case f.Message() && heard != nil:
			heard(f.Subject, f.Payload)
		case f.Verb == "PING":
			if c.write([]byte("PONG\r\n")) != nil {
				return
			}
		}
	}
}

// Publish sends a message.
func (c *Client) Publish(subject string, payload []byte) error {
	frame := fmt.Appendf(nil, "PUB %s %d\r\n", subject, len(payload))
	frame = append(frame, payload...)
	return c.write(append(frame, "\r\n"...))
}

func (c *Client) write(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.conn.SetWriteDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	_, err := c.conn.Write(b)
	return err
}

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close ends the connection and waits until nothing more is heard.
func (c *Client) Close() {
	_ = c.conn.Close()
	<-c.done
}
