package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// NATS is the Feed and the Reporter over NATS. It connects when it is
// subscribed, and keeps trying until it is closed: there is a good-bye to say
// after the subscription's context is done.
type NATS struct {
	URLs     []string
	Subjects wire.Subjects
	Agent    string // the name to report under
	Log      *slog.Logger

	mu   sync.Mutex
	conn *nats.Conn
}

var (
	_ Feed     = (*NATS)(nil)
	_ Reporter = (*NATS)(nil)
)

// subscribeTimeout bounds the wait for a first connection and its subscription:
// a follower need not wait longer, since it notices whatever it missed.
const subscribeTimeout = time.Second

// Subscribe implements Feed. An error means that the connection is
// misconfigured.
func (n *NATS) Subscribe(ctx context.Context, h Handler) error {
	opts := []nats.Option{
		nats.Name("scriptorium agent " + n.Agent),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(200 * time.Millisecond),
		nats.ReconnectJitter(300*time.Millisecond, 300*time.Millisecond),
		nats.ReconnectBufSize(-1), // a status of the past is of no use
		nats.Timeout(subscribeTimeout),
		nats.PingInterval(5 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.NoCallbacksAfterClientClose(),
		nats.ConnectHandler(func(c *nats.Conn) { n.connected(c, h, "connected to NATS") }),
		nats.ReconnectHandler(func(c *nats.Conn) { n.connected(c, h, "connected to NATS again") }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			n.Log.Warn("NATS is gone; polling the registry until it is back", "error", err)
			h.Connected(false)
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			n.Log.Warn("NATS reports an error", "error", err)
			if errors.Is(err, nats.ErrSlowConsumer) {
				h.Lost()
			}
		}),
	}
	conn, err := nats.Connect(strings.Join(n.URLs, ","), opts...)
	if err != nil {
		return fmt.Errorf("set up the connection to NATS at %s: %w", strings.Join(n.URLs, ","), err)
	}
	sub, err := conn.Subscribe(n.Subjects.Feed(), func(m *nats.Msg) { n.deliver(h, m) })
	if err != nil {
		conn.Close()
		return fmt.Errorf("subscribe to %s: %w", n.Subjects.Feed(), err)
	}
	context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() }) // fails only if it is over anyhow
	n.mu.Lock()
	n.conn = conn
	n.mu.Unlock()
	if conn.IsConnected() {
		// What is published from here on comes in, or else shows as a gap.
		_ = conn.FlushTimeout(subscribeTimeout)
	}
	return nil
}

// Close ends the connection, once what was reported is on its way.
func (n *NATS) Close() {
	conn := n.connection()
	if conn == nil {
		return
	}
	_ = conn.FlushTimeout(subscribeTimeout) // a report that is lost is made up for, or timed out
	conn.Close()
}

func (n *NATS) connection() *nats.Conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.conn
}

func (n *NATS) connected(conn *nats.Conn, h Handler, what string) {
	_ = conn.FlushTimeout(subscribeTimeout) // the server then has the subscription, if it is not slow
	n.Log.Info(what)
	h.Connected(true)
}

// deliver hands a message on. Of what cannot be read, only that is told.
func (n *NATS) deliver(h Handler, m *nats.Msg) {
	var err error
	switch m.Subject {
	case n.Subjects.Event():
		var e eventv1.Event
		if err = wire.Open(m.Data, &e); err == nil {
			h.Event(&e)
		}
	case n.Subjects.Beacon():
		var b eventv1.Beacon
		if err = wire.Open(m.Data, &b); err == nil {
			h.Beacon(&b)
		}
	case n.Subjects.RollCall():
		var r eventv1.RollCall
		if err = wire.Open(m.Data, &r); err == nil {
			h.RollCall(&r)
		}
	}
	if err != nil {
		n.Log.Warn("a message of the feed cannot be read", "subject", m.Subject, "bytes", len(m.Data), "error", err)
		h.Malformed()
	}
}

// Report implements Reporter.
func (n *NATS) Report(_ context.Context, s *eventv1.Status) error {
	conn := n.connection()
	if conn == nil {
		return script.Errorf(script.Unavailable, "", "not connected to NATS")
	}
	data, err := wire.Seal(s)
	if err != nil {
		return err
	}
	if err := conn.Publish(n.Subjects.Status(n.Agent), data); err != nil {
		return fmt.Errorf("publish the status: %w", err)
	}
	return nil
}
