// Package fanout carries the change feed to the fleet over NATS, and the agents'
// status back. It is the registry's only importer of the NATS client.
//
// NATS brings speed, not truth: nothing here is retried or stored. What is lost
// on the way agents find out by the next beacon, or by polling when none comes.
package fanout

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/natsconn"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/feed"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/session"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Config says which NATS, and how.
type Config struct {
	// URLs of NATS servers, such as "nats://127.0.0.1:4222".
	URLs []string
	// Security of the connection.
	Security natsconn.Security
	// Subjects of the fleet; wire.DefaultPrefix if their prefix is empty.
	Subjects wire.Subjects
	// Sealer seals what agents are to believe.
	Sealer *seal.Sealer
	// Sessions verify what agents say of themselves.
	Sessions Sessions
	// Reports gets what the agents say of themselves. It is called from one
	// goroutine.
	Reports func(fleet.Report)
	// RollCalled, if not nil, is called after each message that asks all agents to report.
	RollCalled func()
	// Tracer makes the spans of events whose transactions are traced; nil for none.
	Tracer trace.Tracer
	Log    *slog.Logger
}

// Fanout is a connection to NATS that is kept up for ever. It is safe for
// concurrent use.
type Fanout struct {
	nc       *nats.Conn
	subjects wire.Subjects
	sealer   *seal.Sealer
	sessions Sessions
	reports  func(fleet.Report)
	called   func()
	tracer   trace.Tracer
	log      *slog.Logger
	fleet    atomic.Pointer[string] // whose roll is called
	warned   time.Time              // of reports that change nothing; used by the subscription alone
	rates    rates                  // used by the subscription alone

	stats stats
}

var _ feed.Publisher = (*Fanout)(nil)

type stats struct {
	events, trimmed, oversized, failed, beacons, reports, skipped atomic.Uint64

	refused map[string]*atomic.Uint64 // reports, by the reason
}

// Stats counts what went over NATS since the start.
type Stats struct {
	Events    uint64 // published
	Trimmed   uint64 // of these, without their sources: they were too large with them
	Oversized uint64 // not published: too large even so
	Failed    uint64 // not published for any other reason
	Beacons   uint64
	Reports   uint64 // received
	Skipped   uint64 // failures and trials in reports that could not be read
	// Refused are the reports that changed nothing, by the reason.
	Refused map[string]uint64
}

// Stats returns the counts.
func (f *Fanout) Stats() Stats {
	refused := make(map[string]uint64, len(f.stats.refused))
	for reason, n := range f.stats.refused {
		refused[reason] = n.Load()
	}
	return Stats{
		Refused:   refused,
		Events:    f.stats.events.Load(),
		Trimmed:   f.stats.trimmed.Load(),
		Oversized: f.stats.oversized.Load(),
		Failed:    f.stats.failed.Load(),
		Beacons:   f.stats.beacons.Load(),
		Reports:   f.stats.reports.Load(),
		Skipped:   f.stats.skipped.Load(),
	}
}

// Connect returns a Fanout. It does not wait for NATS: if no server can be
// reached it keeps trying, and what is published meanwhile fails.
func Connect(cfg Config) (*Fanout, error) {
	f := &Fanout{subjects: cfg.Subjects, sealer: cfg.Sealer, sessions: cfg.Sessions, rates: rates{}, reports: cfg.Reports, called: cfg.RollCalled, tracer: cfg.Tracer, log: cfg.Log}
	f.stats.refused = map[string]*atomic.Uint64{}
	for _, reason := range Reasons() {
		f.stats.refused[reason] = &atomic.Uint64{}
	}
	if f.tracer == nil {
		f.tracer = noop.Tracer{}
	}
	if f.called == nil {
		f.called = func() {}
	}
	if f.subjects.Prefix == "" {
		f.subjects.Prefix = wire.DefaultPrefix
	}
	options := []nats.Option{
		nats.Name("scriptorium registry"),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		// A password may be wrong for a while, such as when it is being changed.
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, 250*time.Millisecond),
		nats.Timeout(2 * time.Second),
		// A server that takes nothing any more is to hold up neither the feed nor the
		// replica's choice of another one.
		nats.FlusherTimeout(500 * time.Millisecond),
		nats.ReconnectOnFlusherError(),
		nats.PingInterval(time.Second),
		nats.MaxPingsOutstanding(2),
		// What cannot be sent now is not sent later: a beacon of the past would make
		// agents believe that they are current.
		nats.ReconnectBufSize(-1),
		nats.NoEcho(),
		nats.ConnectHandler(func(nc *nats.Conn) { f.connected(nc) }),
		nats.ReconnectHandler(func(nc *nats.Conn) { f.connected(nc) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				f.log.Warn("NATS is gone; agents poll until it is back", "error", err)
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			f.log.Warn("NATS reports an error", "error", err)
		}),
	}
	secure, err := cfg.Security.Options()
	if err != nil {
		return nil, err
	}
	urls := strings.Join(cfg.URLs, ",")
	nc, err := nats.Connect(urls, append(options, secure...)...)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "nats", "cannot use %s: %w", urls, err)
	}
	f.nc = nc
	sub, err := nc.Subscribe(f.subjects.AllStatus(), f.receive)
	if err != nil {
		nc.Close()
		return nil, script.Errorf(script.Invalid, "nats", "cannot subscribe to %s: %w", f.subjects.AllStatus(), err)
	}
	// A roll call makes all agents answer at once.
	if err := sub.SetPendingLimits(1<<20, 256<<20); err != nil {
		nc.Close()
		return nil, script.Errorf(script.Internal, "nats", "cannot set the limits of the subscription: %w", err)
	}
	return f, nil
}

// Close ends the connection.
func (f *Fanout) Close() { f.nc.Close() }

// Flush waits until the server has all that was published. ctx must have a deadline.
func (f *Fanout) Flush(ctx context.Context) error { return f.nc.FlushWithContext(ctx) }

// Connected reports whether a server of NATS is connected right now.
func (f *Fanout) Connected() bool { return f.nc.IsConnected() }

func (f *Fanout) connected(nc *nats.Conn) {
	f.log.Info("NATS is connected", "server", nc.ConnectedUrlRedacted())
	if id := f.fleet.Load(); id != nil {
		f.rollCall(nc, *id)
	}
}

// RollCall asks every agent of the fleet for its status, now and whenever the
// connection comes back.
func (f *Fanout) RollCall(fleetID string) {
	f.fleet.Store(&fleetID)
	f.rollCall(f.nc, fleetID)
}

// rollCall needs no retry: agents report every few seconds by themselves.
func (f *Fanout) rollCall(nc *nats.Conn, fleetID string) {
	data, err := f.sealer.Seal(&eventv1.RollCall{Fleet: fleetID})
	if err == nil {
		err = nc.Publish(f.subjects.RollCall(), data)
	}
	if err != nil {
		f.log.Debug("the roll was not called; agents report by themselves soon", "error", err)
		return
	}
	f.called()
}

// PublishEvent implements feed.Publisher. An event that is larger than the server
// takes goes out without its sources, which agents then fetch.
func (f *Fanout) PublishEvent(ctx context.Context, e feed.Event) (err error) {
	ctx, end := f.begin(ctx, &e)
	defer func() { end(err) }()
	err = f.publish(ctx, f.subjects.Event(e.Group), eventMessage(e))
	if errors.Is(err, nats.ErrMaxPayload) && len(e.Sources) > 0 {
		e.Sources = nil
		if err = f.publish(ctx, f.subjects.Event(e.Group), eventMessage(e)); err == nil {
			f.stats.trimmed.Add(1)
		}
	}
	switch {
	case err == nil:
		f.stats.events.Add(1)
		return nil
	case errors.Is(err, nats.ErrMaxPayload):
		f.stats.oversized.Add(1)
	default:
		f.stats.failed.Add(1)
	}
	return script.Errorf(script.Unavailable, "", "publish the event of revision %d: %w", e.Revision, err)
}

// PublishBeacon implements feed.Publisher.
func (f *Fanout) PublishBeacon(ctx context.Context, b feed.Beacon) error {
	if err := f.publish(ctx, f.subjects.Beacon(b.Group), beaconMessage(b, f.sessions)); err != nil {
		f.stats.failed.Add(1)
		return script.Errorf(script.Unavailable, "", "publish a beacon: %w", err)
	}
	f.stats.beacons.Add(1)
	return nil
}

// publish hands m to the connection, whose writer sends it at once: waiting for
// the server to confirm would only delay the next event.
func (f *Fanout) publish(ctx context.Context, subject string, m proto.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	data, err := f.sealer.Seal(m)
	if err != nil {
		return err
	}
	if c := tracecontext.From(ctx); c.Valid() && f.nc.HeadersSupported() {
		return f.nc.PublishMsg(&nats.Msg{Subject: subject, Data: data, Header: nats.Header{tracecontext.Name: {c.String()}}})
	}
	return f.nc.Publish(subject, data)
}

// warnInterval is the time between two warnings of reports.
const warnInterval = time.Minute

// refuse counts a report that changes nothing, and warns of it, but not of each: an agent that
// is at odds with this registry sends one every few seconds, and a stranger as many as he likes.
func (f *Fanout) refuse(agent string, err error) {
	reason := reasonOf(err)
	f.stats.refused[reason].Add(1)
	if reason == reasonNoSession {
		return // an agent has none before its first answer
	}
	f.warn("reports of agents change nothing; others are logged once a minute", "agent", agent, "reason", reason, "error", err)
}

func (f *Fanout) warn(message string, attrs ...any) {
	if now := time.Now(); now.Sub(f.warned) >= warnInterval {
		f.warned = now
		f.log.Warn(message, attrs...)
	}
}

func (f *Fanout) receive(msg *nats.Msg) {
	agent := strings.TrimPrefix(msg.Subject, f.subjects.Status(""))
	report, skipped, err := openReport(f.sessions, agent, msg.Data, func(of session.Session) error { return f.rates.admit(of, time.Now()) })
	if err != nil {
		f.refuse(agent, err)
		return
	}
	f.stats.reports.Add(1)
	if skipped > 0 {
		f.stats.skipped.Add(uint64(skipped))
		f.warn("parts of agents' reports cannot be read: do their versions fit this registry's?", "agent", agent, "left_out", skipped,
			"left_out_so_far", f.stats.skipped.Load())
	}
	f.reports(report)
}

// Reports of an agent come ten times a second at most, but those of some seconds can come at
// once: as many are taken in.
const (
	reportsPerSecond = 20
	reportsAtOnce    = 200
	maxRates         = 100_000 // agents; all start anew when there are more
)

// rates are how often agents report: each identity of a name by itself.
type rates map[rateKey]*rate

type rateKey struct{ agent, identity string }

type rate struct {
	left float64 // reports that are taken in at once
	at   time.Time
}

// admit returns an error if the agent reports too often.
func (r rates) admit(of session.Session, now time.Time) error {
	if len(r) >= maxRates {
		clear(r)
	}
	key := rateKey{of.Agent, of.Identity}
	one := r[key]
	if one == nil {
		one = &rate{left: reportsAtOnce, at: now}
		r[key] = one
	}
	one.left = min(reportsAtOnce, one.left+now.Sub(one.at).Seconds()*reportsPerSecond)
	one.at = now
	if one.left < 1 {
		return script.Errorf(script.Limit, "agent", "more than %d reports a second: %w", reportsPerSecond, errTooOften)
	}
	one.left--
	return nil
}
