package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// load is how much is asked of a server in one measurement.
type load struct {
	connections int
	pipeline    int
	duration    time.Duration
}

// measurement is what came of it.
type measurement struct {
	calls   uint64 // answered, the failed ones among them
	failed  uint64
	elapsed time.Duration
	latency histogram // of a call, or of a whole pipeline of calls
}

func (m *measurement) rate() float64 { return float64(m.calls) / m.elapsed.Seconds() }

// drive sends calls over a byte stream. Redis and the agent get the very same
// client: one goroutine a connection, one write and one read a batch.
func drive(ctx context.Context, socket string, p protocol, l load) (*measurement, error) {
	return together(ctx, l, func(ctx context.Context, until time.Time) (*measurement, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, err
		}
		defer func() { _ = conn.Close() }()
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		defer stop()
		s := &sender{p: p, until: until, buf: make([]byte, 64<<10), m: &measurement{}}
		for range l.pipeline {
			s.batch = append(s.batch, p.request...)
		}
		s.pipeline = l.pipeline
		return s.m, s.run(conn.(syscall.Conn))
	})
}

// together runs worker once a connection, all at the same time, and adds up what
// they measured.
func together(ctx context.Context, l load, worker func(context.Context, time.Time) (*measurement, error)) (*measurement, error) {
	start := time.Now()
	until := start.Add(l.duration)
	parts := make([]*measurement, l.connections)
	group, ctx := errgroup.WithContext(ctx)
	for i := range parts {
		group.Go(func() (err error) {
			parts[i], err = worker(ctx, until)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	sum := &measurement{elapsed: time.Since(start)}
	for _, part := range parts {
		sum.calls += part.calls
		sum.failed += part.failed
		sum.latency.merge(&part.latency)
	}
	return sum, nil
}

// sender is one connection of the driver.
type sender struct {
	p        protocol
	batch    []byte
	pipeline int
	until    time.Time
	m        *measurement

	buf      []byte
	filled   int
	awaited  int // replies of the batch that are not there yet
	unsent   []byte
	sent     time.Time
	finished error
}

var errDone = errors.New("the time is over")

// run sends batches until the time is over. It all happens in one RawConn.Read,
// so that the driver tries no read before there is something to read.
func (s *sender) run(conn syscall.Conn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	s.begin()
	err = raw.Read(func(fd uintptr) bool {
		s.finished = s.step(int(fd))
		return s.finished != nil
	})
	if err != nil {
		return err
	}
	if errors.Is(s.finished, errDone) {
		return nil
	}
	return s.finished
}

// begin starts the next batch.
func (s *sender) begin() {
	s.sent, s.awaited, s.unsent = time.Now(), s.pipeline, s.batch
}

// step writes and reads what can be.
func (s *sender) step(fd int) error {
	for {
		if len(s.unsent) > 0 {
			n, err := unix.Write(fd, s.unsent)
			if err != nil && !errors.Is(err, unix.EAGAIN) {
				return err
			}
			s.unsent = s.unsent[max(n, 0):]
			if len(s.unsent) == 0 && s.awaited == s.pipeline {
				return nil
			}
		}
		n, err := unix.Read(fd, s.buf[s.filled:])
		if errors.Is(err, unix.EAGAIN) {
			return nil
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return errors.New("the server closed the connection")
		}
		s.filled += n
		full := s.filled == len(s.buf)
		done, err := s.take()
		if err != nil {
			return err
		}
		if !done && !full && len(s.unsent) == 0 {
			return nil
		}
	}
}

// take takes the replies out of the buffer, and begins the next batch when those
// of this one are all there.
func (s *sender) take() (done bool, err error) {
	start := 0
	for s.awaited > 0 {
		n, result, err := s.p.reply(s.buf[start:s.filled])
		if err != nil {
			return false, err
		}
		if n == 0 {
			break
		}
		if result == nil {
			s.m.failed++
		}
		start += n
		s.awaited--
	}
	s.filled = copy(s.buf, s.buf[start:s.filled])
	if s.awaited > 0 {
		if s.filled == len(s.buf) {
			return false, fmt.Errorf("a reply is longer than %d bytes", len(s.buf))
		}
		return false, nil
	}
	now := time.Now()
	s.m.latency.add(now.Sub(s.sent), uint64(s.pipeline))
	s.m.calls += uint64(s.pipeline)
	if now.After(s.until) {
		return false, errDone
	}
	s.begin()
	return true, nil
}

// once makes one call and returns its result.
func once(ctx context.Context, socket string, p protocol) ([]byte, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write(p.request); err != nil {
		return nil, err
	}
	buf := make([]byte, 64<<10)
	for filled := 0; ; {
		var result []byte
		n, err := conn.Read(buf[filled:])
		if err != nil {
			return nil, err
		}
		filled += n
		n, result, err = p.reply(buf[:filled])
		if n > 0 && result == nil {
			return nil, fmt.Errorf("the call failed: %s", buf[:n])
		}
		if n > 0 || err != nil {
			return result, err
		}
	}
}
