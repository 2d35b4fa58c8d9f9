// Package natssink publishes decisions on NATS. Each record is a message on a subject with its tenant, script and agent.
// With JetStream, a record is accepted when a stream has stored it. Without JetStream, it is accepted when the server has
// received it, with or without subscribers.
package natssink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/deliver"
	"github.com/scriptorium-dev/scriptorium/proto/natsconn"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Config of a Sink.
type Config struct {
	URLs     []string // servers of one cluster
	Security natsconn.Security
	Subjects wire.Subjects
	Agent    string // its name
	// JetStream waits until a stream has stored the records.
	JetStream bool
	// Courier configures retries. New sets its Collector and Log.
	Courier deliver.Config

	Log *slog.Logger // nil means slog.Default()
}

// Sink is a decisionlog.Sink. It has its own connection, so that decisions do not delay messages of the registry.
type Sink struct {
	cfg     Config
	conn    *nats.Conn
	stream  jetstream.JetStream // nil without JetStream
	courier *deliver.Courier
}

var _ decisionlog.Sink = (*Sink)(nil)

const (
	reconnectMin = 100 * time.Millisecond
	reconnectMax = 2 * time.Second
	// maxPending bounds the records that wait for an acknowledgement of the stream.
	maxPending = 1024
)

// New returns a sink. It connects in the background. An error means that the configuration is wrong.
func New(cfg Config) (*Sink, error) {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Courier.Timeout == 0 {
		cfg.Courier.Timeout = 10 * time.Second
	}
	cfg.Courier.Collector, cfg.Courier.Log = "NATS, subject "+cfg.Subjects.Decisions(script.Name{Tenant: "*", Script: "*"}, cfg.Agent), cfg.Log
	options := []nats.Option{
		nats.Name("scriptorium decisions of " + cfg.Agent),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(func(rounds int) time.Duration {
			pause := min(reconnectMax, reconnectMin<<min(max(rounds-1, 0), 10))
			return pause/2 + rand.N(pause)
		}),
		nats.ReconnectBufSize(-1), // no buffer: the courier retries
		nats.Timeout(cfg.Courier.Timeout), nats.FlusherTimeout(cfg.Courier.Timeout),
		nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2),
		nats.CustomInboxPrefix(cfg.Subjects.Acks(cfg.Agent)),
		nats.NoCallbacksAfterClientClose(),
		// The courier retries the records, and logs the error.
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			cfg.Log.Debug("NATS reports an error about decisions", "error", err)
		}),
	}
	secure, err := cfg.Security.Options()
	if err != nil {
		return nil, err
	}
	urls := strings.Join(cfg.URLs, ",")
	conn, err := nats.Connect(urls, append(options, secure...)...)
	if err != nil {
		return nil, fmt.Errorf("set up the connection for decisions to NATS at %s: %w", urls, err)
	}
	s := &Sink{cfg: cfg, conn: conn, courier: deliver.New(cfg.Courier)}
	if cfg.JetStream {
		s.stream, err = jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(maxPending), jetstream.WithPublishAsyncTimeout(cfg.Courier.Timeout))
		if err != nil {
			conn.Close()
			return nil, fmt.Errorf("set up JetStream for decisions: %w", err)
		}
	}
	return s, nil
}

// Write publishes the records. If the connection fails, it publishes records again that may not have arrived. A message
// has the id of the decision, so JetStream and consumers can remove duplicates.
func (s *Sink) Write(ctx context.Context, records [][]byte) error {
	waiting := make([]*nats.Msg, len(records))
	for i, r := range records {
		waiting[i] = s.message(r)
	}
	send := s.publish
	if s.stream != nil {
		send = s.store
	}
	for len(waiting) > 0 {
		batch := waiting[:min(len(waiting), maxPending)]
		waiting = waiting[len(batch):]
		large := 0
		err := s.courier.SendAll(ctx, len(batch), func(ctx context.Context) (err error) {
			var more int
			batch, more = s.fitting(batch)
			large += more
			batch, err = send(ctx, batch)
			return err
		})
		if err != nil {
			return err
		}
		if large > 0 {
			s.courier.Reject(large, fmt.Errorf("records have more than the %d bytes that a message may have", s.conn.MaxPayload()))
		}
	}
	return s.courier.Rejected()
}

// message returns the message of a record.
func (s *Sink) message(record []byte) *nats.Msg {
	var head struct {
		ID     string `json:"decision_id"`
		Tenant string `json:"tenant"`
		Script string `json:"script"`
	}
	_ = json.Unmarshal(record, &head) // after an error, the subject has no names
	name := script.Name{Tenant: head.Tenant, Script: head.Script}
	if script.ValidateLabel("tenant", name.Tenant) != nil {
		name.Tenant = wire.NoName
	}
	if script.ValidateLabel("script", name.Script) != nil {
		name.Script = wire.NoName
	}
	m := &nats.Msg{Subject: s.cfg.Subjects.Decisions(name, s.cfg.Agent), Data: record}
	if head.ID != "" {
		m.Header = nats.Header{nats.MsgIdHdr: {head.ID}}
	}
	if s.stream != nil {
		m.Data = bytes.Clone(record) // JetStream retains it until the acknowledgement
	}
	return m
}

// fitting returns the messages within the server's limit, and the number of larger ones. Before the first connection the
// limit is not known.
func (s *Sink) fitting(batch []*nats.Msg) (fit []*nats.Msg, large int) {
	most := s.conn.MaxPayload()
	for _, m := range batch {
		if most > 0 && int64(m.Size()) > most {
			large++
			continue
		}
		fit = append(fit, m)
	}
	return fit, large
}

// publish sends messages to the server. With an error, it returns the messages to send again.
func (s *Sink) publish(ctx context.Context, batch []*nats.Msg) ([]*nats.Msg, error) {
	before := s.conn.LastError()
	for _, m := range batch {
		if err := s.conn.PublishMsg(m); err != nil {
			return batch, err
		}
	}
	if err := s.conn.FlushWithContext(ctx); err != nil {
		return batch, err
	}
	return batch, s.violation(before)
}

// violation returns a permission violation that the server reported after the error before. Call it after a flush: the
// server reports violations before it answers the flush.
func (s *Sink) violation(before error) error {
	if err := s.conn.LastError(); !same(err, before) && errors.Is(err, nats.ErrPermissionViolation) {
		return deliver.Permanent(err)
	}
	return nil
}

// same reports whether both are the same error value.
func same(a, b error) bool { return a == b } //nolint:errorlint // each violation is a new value

// store publishes messages like publish, and waits until a stream has acknowledged them.
func (s *Sink) store(ctx context.Context, batch []*nats.Msg) ([]*nats.Msg, error) {
	before := s.conn.LastError()
	futures := make([]jetstream.PubAckFuture, 0, len(batch))
	var failure error
	for _, m := range batch {
		m.Reply = ""
		f, err := s.stream.PublishMsgAsync(m, jetstream.WithRetryAttempts(0))
		if err != nil {
			failure = err
			break
		}
		futures = append(futures, f)
	}
	if err := s.conn.FlushWithContext(ctx); err != nil {
		return batch, errors.Join(failure, err)
	}
	if err := s.violation(before); err != nil {
		return batch, err
	}
	left := batch[len(futures):]
	for i, f := range futures {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			failure, left = err, append(left, batch[i])
		case <-ctx.Done():
			return append(left, batch[i:len(futures)]...), ctx.Err()
		}
	}
	if len(left) == 0 {
		return nil, nil
	}
	return left, failure
}

// Close closes the connection.
func (s *Sink) Close(context.Context) error {
	s.conn.Close()
	return nil
}
