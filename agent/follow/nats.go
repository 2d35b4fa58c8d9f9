package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/natsconn"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// NATS is the Feed and the Reporter over NATS. It connects when it is
// subscribed, and keeps trying until it is closed: there is a good-bye to say
// after the subscription's context is done.
type NATS struct {
	URLs     []string
	Security natsconn.Security
	Subjects wire.Subjects
	Group    string            // of the feed
	Agent    string            // the name to report under
	Dialer   nats.CustomDialer // nil for one of the system's choice
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

// Attempts to connect again are reconnectMin apart, and after each failure twice as far,
// so that a fleet does not keep a busy server from answering any of its agents in time.
// With the jitter and subscribeTimeout, agents are back within 7 s, before the registry takes
// the fleet for gathered (fleet.Config.Settle).
const (
	reconnectMin = 250 * time.Millisecond
	reconnectMax = 4 * time.Second
)

// reconnectDelay returns how long to wait after that many failed rounds.
func reconnectDelay(rounds int) time.Duration {
	backoff := min(reconnectMax, reconnectMin<<min(max(rounds-1, 0), 10))
	return backoff/2 + rand.N(backoff)
}

// Subscribe implements Feed. An error means that the connection is
// misconfigured.
func (n *NATS) Subscribe(ctx context.Context, h Handler) error {
	opts := []nats.Option{
		nats.Name("scriptorium agent " + n.Agent),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(reconnectDelay),
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
	secure, err := n.Security.Options()
	if err != nil {
		return err
	}
	if n.Dialer != nil {
		secure = append(secure, nats.SetCustomDialer(n.Dialer))
	}
	conn, err := nats.Connect(strings.Join(n.URLs, ","), append(opts, secure...)...)
	if err != nil {
		return fmt.Errorf("set up the connection to NATS at %s: %w", strings.Join(n.URLs, ","), err)
	}
	for _, subject := range []string{n.Subjects.Feed(n.Group), n.Subjects.RollCall(), n.Subjects.Tail(), n.Subjects.Recall(), n.Subjects.Content(n.Agent), n.Subjects.Query()} {
		sub, err := conn.Subscribe(subject, func(m *nats.Msg) { n.deliver(h, m) })
		if err != nil {
			conn.Close()
			return fmt.Errorf("subscribe to %s: %w", subject, err)
		}
		context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() }) // fails only if it is over anyhow
	}
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

// IsConnected reports whether the connection is there.
func (n *NATS) IsConnected() bool {
	conn := n.connection()
	return conn != nil && conn.IsConnected()
}

func (n *NATS) connected(conn *nats.Conn, h Handler, what string) {
	_ = conn.FlushTimeout(subscribeTimeout) // the server then has the subscription, if it is not slow
	n.Log.Info(what)
	h.Connected(true)
}

// deliver hands a message on.
func (n *NATS) deliver(h Handler, m *nats.Msg) {
	switch m.Subject {
	case n.Subjects.Event(n.Group):
		h.Event(m.Data)
	case n.Subjects.Beacon(n.Group):
		h.Beacon(m.Data)
	case n.Subjects.RollCall():
		h.RollCall(m.Data)
	case n.Subjects.Tail():
		h.Tail(m.Data)
	case n.Subjects.Recall():
		h.Recall(m.Data)
	case n.Subjects.Query():
		h.Query(m.Data)
	case n.Subjects.Content(n.Agent):
		h.Content(m.Data)
	}
}

// Report implements Reporter.
func (n *NATS) Report(_ context.Context, s *eventv1.Status, in seal.Session) error {
	conn := n.connection()
	if conn == nil {
		return script.Errorf(script.Unavailable, "", "not connected to NATS")
	}
	if !conn.IsConnected() {
		return script.Errorf(script.Unavailable, "", "NATS at %s cannot be reached: is it running, and may this agent log in?", strings.Join(n.URLs, ", "))
	}
	data, err := seal.SealStatus(s, in)
	if err != nil {
		return err
	}
	if err := conn.Publish(n.Subjects.Status(n.Agent), data); err != nil {
		return fmt.Errorf("publish the status: %w", err)
	}
	return nil
}

// SendCopy sends what the registry has asked for, or says that NATS does not take it.
func (n *NATS) SendCopy(m *eventv1.Copy) error {
	conn := n.connection()
	if conn == nil || !conn.IsConnected() {
		return script.Errorf(script.Unavailable, "", "not connected to NATS")
	}
	m.Agent = n.Agent
	data, err := seal.SealCopy(m)
	if err == nil && int64(len(data)) > conn.MaxPayload() {
		m.Problem = fmt.Sprintf("it has %d bytes, and NATS takes messages of %d: raise its max_payload", len(m.GetContent()), conn.MaxPayload())
		m.Content = nil
		data, err = seal.SealCopy(m)
	}
	if err != nil {
		return err
	}
	if err := conn.Publish(n.Subjects.Copies(n.Agent), data); err != nil {
		return fmt.Errorf("publish a copy: %w", err)
	}
	return nil
}

// SendAnswer sends a part of an answer to a query in the session. The error is of kind Limit if NATS
// does not take a message of that size.
func (n *NATS) SendAnswer(m *eventv1.Answer, in seal.Session) error {
	conn := n.connection()
	if conn == nil || !conn.IsConnected() {
		return script.Errorf(script.Unavailable, "", "not connected to NATS")
	}
	data, err := seal.SealAnswer(m, in)
	if err != nil {
		return err
	}
	if int64(len(data)) > conn.MaxPayload() {
		return script.Errorf(script.Limit, "", "a part of the answer has %d bytes, and NATS takes messages of %d: raise its max_payload", len(data), conn.MaxPayload())
	}
	if err := conn.Publish(n.Subjects.Answers(n.Agent), data); err != nil {
		return fmt.Errorf("publish an answer: %w", err)
	}
	return nil
}

// SendLogs sends what scripts have logged to whoever reads along. Lines that are lost on
// the way are lost.
func (n *NATS) SendLogs(m *eventv1.Logs) error {
	conn := n.connection()
	if conn == nil || !conn.IsConnected() {
		return script.Errorf(script.Unavailable, "", "not connected to NATS")
	}
	data, err := seal.SealLogs(m)
	if err != nil {
		return err
	}
	if err := conn.Publish(n.Subjects.Logs(n.Agent), data); err != nil {
		return fmt.Errorf("publish what scripts have logged: %w", err)
	}
	return nil
}
