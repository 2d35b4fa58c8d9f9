package httpsock

import (
	"bytes"
	"errors"
	"net"
	"net/http"
)

// maxFields bounds the lines of a request's head: net/http takes hundreds of bytes for each,
// and a line can have three.
const maxFields = 128

var errFields = errors.New("the head of the request has too many lines")

// headListener makes a headConn of each connection.
type headListener struct{ net.Listener }

// Accept implements net.Listener.
func (l headListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &headConn{Conn: conn}, nil
}

// headConn is a connection that ends if the head of a request has too many lines. One goroutine
// of net/http uses it at a time.
type headConn struct {
	net.Conn
	lines  int
	begun  bool   // something has come of the line
	inBody bool   // the head has ended
	rest   []byte // came with the head's end, and more than aheadBytes behind it
}

// What comes behind a head can be the body, whose lines do not count, or the next head. Of that,
// net/http gets so little ahead of its time: aheadBytes, where it reads into its own buffer.
const (
	aheadBytes  = 512
	bufferBytes = 4 << 10
)

// Read implements net.Conn.
func (c *headConn) Read(p []byte) (n int, err error) {
	if c.inBody && len(p) <= bufferBytes {
		p = p[:min(len(p), aheadBytes)]
	}
	if len(c.rest) > 0 {
		n = copy(p, c.rest)
		if c.rest = c.rest[n:]; len(c.rest) == 0 {
			c.rest = nil // an idle connection keeps no buffer
		}
	} else {
		n, err = c.Conn.Read(p)
	}
	for i, b := range p[:n] {
		switch {
		case c.inBody && i+aheadBytes < n && len(p) <= bufferBytes:
			c.rest = append(bytes.Clone(p[i+aheadBytes:n]), c.rest...)
			return i + aheadBytes, nil // an error comes again
		case c.inBody:
			return n, err
		case b == '\n' && c.begun:
			c.begun = false
			if c.lines++; c.lines > maxFields {
				return 0, errFields
			}
		case b == '\n':
			c.inBody = c.lines > 0 // net/http passes over empty lines before a head
		case b != '\r':
			c.begun = true
		}
	}
	return n, err
}

// CloseWrite lets net/http close a connection so that its client can read the last answer.
func (c *headConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// follow tells a connection whether a request runs, whose head has been read, or the next one
// is to come.
func follow(conn net.Conn, state http.ConnState) {
	c := conn.(*headConn)
	switch state {
	case http.StateActive:
		c.inBody = true
	case http.StateIdle:
		c.lines, c.begun, c.inBody = 0, false, false
	}
}
