package spopsock

import (
	"errors"
	"net"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/script"
)

// How much memory a question takes while it runs: for each byte of its frame the text of it and a body
// as bytes, besides the argument of the script, and for each header or parameter its places in maps.
const (
	questionBytes = 2
	entryBytes    = 256
)

// handle handles one frame. An error ends the connection.
func (c *conn) handle(frame []byte) error {
	d := &decoder{text: string(frame)}
	h, err := parseHeader(d)
	if err != nil {
		return err
	}
	switch {
	case h.kind == frameDisconnect:
		why := parseDisconnect(d)
		c.srv.opts.Logger.Debug("HAProxy disconnects", "status", why.status, "reason", why.reason)
		return disconnect(statusNormal, "")
	case !c.greeted:
		if h.kind != frameHello {
			return disconnect(statusInvalid, "a frame of type %d came before HELLO", h.kind)
		}
		return c.hello(h, d)
	case h.kind == frameHello:
		return disconnect(statusInvalid, "a second HELLO came")
	case h.kind == frameNotify:
		return c.notify(h, d, len(frame))
	}
	return nil // SPOP has peers skip frames that they do not know
}

func (c *conn) hello(h header, d *decoder) (err error) {
	if c.terms, err = parseHello(h, d, c.srv.opts.MaxFrame); err != nil {
		return err
	}
	c.write(appendHello(nil, c.terms), c.terms.check)
	if c.terms.check {
		return errDone
	}
	c.greeted = true
	running := 1
	if c.terms.concurrent {
		running = c.srv.opts.MaxRunning
	}
	c.slots = make(chan struct{}, running)
	return nil
}

// notify has the question of a frame answered as soon as there is a slot.
func (c *conn) notify(h header, d *decoder, size int) error {
	q, err := parseNotify(d)
	if _, malformed := errors.AsType[*disconnection](err); malformed {
		return err
	}
	select {
	case c.slots <- struct{}{}:
	case <-c.ctx.Done():
		return errDone
	}
	leave := func() { <-c.slots }
	if err != nil {
		defer leave()
		c.srv.opts.Logger.Debug("a message of HAProxy is malformed", "script", q.Target, "error", err)
		c.ack(h, &decision.Run{}, decision.FailClosed, decision.Decision{}, err)
		return nil
	}
	bytes := int64(questionBytes*size + entryBytes*q.entries + q.request.ArgumentBytes())
	if !c.asked.Try(bytes) {
		defer leave()
		c.ack(h, &decision.Run{}, q.Fail, decision.Decision{}, budget.ErrOverloaded)
		return nil
	}
	c.calls.Go(func() {
		defer c.srv.conns.Survive(c)
		defer leave()
		defer c.asked.Give(bytes)
		c.answer(h, q)
	})
	runtime.Gosched() // otherwise Go runs the goroutines of a client that floods the server before all others
	return nil
}

// answer has the script decide.
func (c *conn) answer(h header, q *question) {
	run := decision.NewRun()
	defer run.Release()
	grown := int64(0)
	defer func() { c.asked.Give(grown) }()
	q.Hold = func(bytes int64) bool {
		held := c.asked.Try(bytes)
		if held {
			grown += bytes
		}
		return held
	}
	var d decision.Decision
	err := q.Target.Check(c.grant)
	if err == nil {
		q.Origin = gateway.Origin{Protocol: "spop", Caller: c.grant.Caller()}
		d, err = run.Decide(c.ctx, c.srv.opts.Executor, &q.Question, &q.request)
	}
	if c.ctx.Err() != nil && c.killed.Load() {
		return // there is nobody to answer
	}
	if err != nil {
		c.srv.opts.Logger.Debug("a request gets no decision", "script", q.Target, "error", err)
	}
	c.ack(h, run, q.Fail, d, err)
}

// ackBytes has room for a usual answer.
const ackBytes = 256

// ack answers a question with the decision of the run, or with what holds if err is not nil.
func (c *conn) ack(h header, run *decision.Run, fail decision.Fail, d decision.Decision, err error) {
	ran := ran{run.Version(), run.Chain()}
	out, err := appendAck(make([]byte, 0, ackBytes), h, run.Or(fail, d, err), ran, c.terms.maxFrame)
	if err != nil {
		c.srv.opts.Logger.Debug("a decision does not fit", "error", err)
		policy := script.OnError{Policy: run.OnError().Policy} // its body may be what does not fit
		if out, err = appendAck(nil, h, fail.Instead(policy, err), ran, c.terms.maxFrame); err != nil {
			err = script.Errorf(script.Internal, "", "an answer to HAProxy cannot be: %v", err)
			c.srv.opts.Logger.Error("a connection is closed", "error", err)
			c.Kill()
			return
		}
	}
	if !c.asked.Hold(int64(cap(out))) {
		c.Kill()
		return
	}
	defer c.asked.Give(int64(cap(out)))
	c.write(out, false)
	c.active.Store(c.srv.conns.Now())
}

// write writes a frame whole, unless the last one was written. Other goroutines wait meanwhile, and
// keep their slots. A peer that takes nothing for the WriteTimeout loses the connection.
func (c *conn) write(frame []byte, last bool) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.over {
		return
	}
	c.over = last
	n, err := c.writeNow(frame)
	if err == nil && n < len(frame) {
		err = c.writeSlowly(frame[n:])
	}
	if err != nil {
		c.over = true
		c.Kill()
	}
}

// writeNow writes what the socket takes without waiting.
func (c *conn) writeNow(frame []byte) (n int, err error) {
	broken := c.raw.Write(func(fd uintptr) bool {
		for {
			n, err = unix.Write(int(fd), frame)
			if err != unix.EINTR {
				return true
			}
		}
	})
	if err == unix.EAGAIN {
		n, err = 0, nil
	}
	return max(n, 0), errors.Join(broken, err)
}

func (c *conn) writeSlowly(rest []byte) error {
	if err := c.nc.SetWriteDeadline(time.Now().Add(c.srv.opts.WriteTimeout)); err != nil {
		return err
	}
	if c.killed.Load() {
		return net.ErrClosed
	}
	if _, err := c.nc.Write(rest); err != nil {
		return err
	}
	if err := c.nc.SetWriteDeadline(time.Time{}); err != nil {
		return err
	}
	if c.killed.Load() { // what kill set must hold
		return net.ErrClosed
	}
	return nil
}
