package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// respConn is a connection that speaks the Redis protocol, made anew for the call
// after one that failed. A client with a pool would go on failing for a while after
// the agent is back. It is used by one goroutine.
type respConn struct {
	socket string
	conn   net.Conn
	reader *bufio.Reader
}

// refusal is an error that the agent answered.
type refusal string

func (r refusal) Error() string { return string(r) }

// do sends a command and returns the reply: int64, string, nil or []any.
func (c *respConn) do(ctx context.Context, words ...string) (any, error) {
	if c.conn == nil {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "unix", c.socket)
		if err != nil {
			return nil, err
		}
		c.conn, c.reader = conn, bufio.NewReader(conn)
	}
	reply, err := c.roundTrip(ctx, words)
	if _, answered := errors.AsType[refusal](err); err != nil && !answered {
		c.close()
	}
	return reply, err
}

func (c *respConn) roundTrip(ctx context.Context, words []string) (any, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Time{}
	}
	if err := c.conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	command := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		command = fmt.Appendf(command, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := c.conn.Write(command); err != nil {
		return nil, err
	}
	return readReply(c.reader, 0)
}

func (c *respConn) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// Bounds of a reply.
const (
	maxReplyBytes = 4 << 20
	maxReplyParts = 1024
	maxReplyDepth = 4
)

var errReply = errors.New("not a reply of the Redis protocol")

func readReply(r *bufio.Reader, depth int) (any, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, fmt.Errorf("%w: %.80q", errReply, line)
	}
	kind, text := line[0], string(line[1:len(line)-2])
	switch kind {
	case '+':
		return text, nil
	case '-':
		return nil, refusal(text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: %.80q", errReply, line)
	}
	switch {
	case kind == ':':
		return n, nil
	case n == -1 && (kind == '$' || kind == '*'):
		return nil, nil
	case kind == '$':
		return readBulk(r, n)
	case kind == '*':
		return readParts(r, n, depth)
	}
	return nil, fmt.Errorf("%w: %.80q", errReply, line)
}

func readBulk(r *bufio.Reader, size int64) (any, error) {
	if size < 0 || size > maxReplyBytes {
		return nil, fmt.Errorf("%w: a text of %d bytes", errReply, size)
	}
	text := make([]byte, size+2)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, err
	}
	return string(text[:size]), nil
}

func readParts(r *bufio.Reader, count int64, depth int) (any, error) {
	if count < 0 || count > maxReplyParts || depth >= maxReplyDepth {
		return nil, fmt.Errorf("%w: %d parts, %d deep", errReply, count, depth)
	}
	parts := make([]any, count)
	for i := range parts {
		part, err := readReply(r, depth+1)
		if err != nil {
			return nil, err
		}
		parts[i] = part
	}
	return parts, nil
}
