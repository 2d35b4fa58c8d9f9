package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
)

// natsLine is a connection to NATS that is shared by thousands of simulated agents, or
// is one of thousands. It speaks the little of the protocol that they need. It is safe
// for concurrent use.
type natsLine struct {
	conn  net.Conn
	ready chan struct{} // closed when the server has the subscriptions, or the line broke

	mu  sync.Mutex
	out *bufio.Writer
}

// bareHost is the address that lines dial from.
var bareHost = net.IPv4(127, 0, 0, 2)

// dialFrom returns a dialer from that address. One address does not have ports enough
// for ten thousand agents and what their attempts leave in TIME_WAIT, and the kernel
// takes a processor to look for the last ones. In a fleet each node has its own address.
func dialFrom(ip net.IP) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: ip}}
}

// lineBuffer is the size of the buffers of a line, one for each direction.
const lineBuffer = 16 << 10

// dialNATS connects and subscribes. From then on receive gets what comes on the
// subjects, from one goroutine, until the line breaks.
func dialNATS(ctx context.Context, address string, receive func(subject string, data []byte), subjects ...string) (*natsLine, error) {
	dialer := dialFrom(bareHost)
	conn, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(address, "nats://"))
	if err != nil {
		return nil, err
	}
	_ = conn.(*net.TCPConn).SetLinger(0) // nor keep them for a minute after their end
	l := &natsLine{conn: conn, ready: make(chan struct{}), out: bufio.NewWriterSize(conn, lineBuffer)}
	fmt.Fprint(l.out, "CONNECT {\"verbose\":false,\"pedantic\":false,\"echo\":false,\"protocol\":1}\r\n")
	for i, subject := range subjects {
		fmt.Fprintf(l.out, "SUB %s %d\r\n", subject, i+1)
	}
	fmt.Fprint(l.out, "PING\r\n")
	go l.read(bufio.NewReaderSize(conn, lineBuffer), receive)
	if err := l.flush(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	select {
	case <-l.ready:
		return l, nil
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), conn.Close())
	}
}

// read answers pings and delivers messages until the connection breaks.
func (l *natsLine) read(in *bufio.Reader, receive func(string, []byte)) {
	ready := sync.OnceFunc(func() { close(l.ready) })
	defer ready()
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		fields := strings.Fields(line)
		switch {
		case len(fields) == 1 && fields[0] == "PONG":
			ready()
		case len(fields) == 1 && fields[0] == "PING":
			l.mu.Lock()
			_, _ = l.out.WriteString("PONG\r\n") // it fails with the line
			_ = l.out.Flush()
			l.mu.Unlock()
		case len(fields) >= 4 && fields[0] == "MSG":
			size, err := strconv.Atoi(fields[len(fields)-1])
			if err != nil {
				return
			}
			data := make([]byte, size+len("\r\n"))
			if _, err := io.ReadFull(in, data); err != nil {
				return
			}
			receive(fields[1], data[:size])
		}
	}
}

// publish sends a message with the next flush, or before.
func (l *natsLine) publish(subject string, data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := fmt.Fprintf(l.out, "PUB %s %d\r\n", subject, len(data)); err != nil {
		return err
	}
	if _, err := l.out.Write(data); err != nil {
		return err
	}
	_, err := l.out.WriteString("\r\n")
	return err
}

func (l *natsLine) flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Flush()
}

func (l *natsLine) close() { _ = l.conn.Close() }
