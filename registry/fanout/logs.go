package fanout

import (
	"context"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// How agents are asked for what scripts log.
const (
	tailEvery = 5 * time.Second  // while somebody reads
	tailLasts = 15 * time.Second // so one that is lost does not matter
	tailLook  = 250 * time.Millisecond
)

// Bounds of what is read along.
const (
	maxLogReaders  = 1000
	maxReadersOf   = 64      // of them, of one tenant
	maxTails       = 256     // scripts and tenants
	maxTailsOf     = 16      // of them, of one tenant; agents have the same bounds
	maxQueuedBytes = 1 << 20 // of lines that a reader has yet to take
	lineOverhead   = 128     // bytes of a line besides its message, about

	// Bounds of the messages with lines that wait for the registry to hand them to readers.
	maxPendingLogs      = 10_000
	maxPendingLogsBytes = 64 << 20
)

// Logs brings what scripts log on the fleet to those who read along. While nobody
// does it costs nothing: agents are not asked, and nothing is heard. It is safe for
// concurrent use.
type Logs struct {
	fan   *Fanout
	fleet func() string

	mu         sync.Mutex
	readers    map[*logReader]struct{}
	tails      map[script.Name]int // how many read it; a Name without Script is all of a tenant
	sub        *nats.Subscription  // while somebody reads
	stop       func()
	asked      time.Time // when all tails were published last
	connected  bool      // NATS, as of the last state that readers got
	reconnects uint64
	missed     int       // messages that the subscription had no room for, so far
	warned     time.Time // of messages that cannot be read
}

// subscribeWait bounds how long the first reader waits for the subscription.
const subscribeWait = time.Second

// NewLogs returns the logs of the fleet over the connection of f.
func NewLogs(f *Fanout, fleetID func() string) *Logs {
	return &Logs{fan: f, fleet: fleetID, readers: map[*logReader]struct{}{}, tails: map[script.Name]int{}}
}

// Watch yields what the script logs from now on, or all scripts of the tenant if the
// name has no Script, until ctx is done or the caller breaks off. The first that it
// yields, and each time that NATS comes or goes, is a state. A reader that is too slow
// misses lines, and gets their number. An error is of kind Limit: there are
// too many readers; it is the last.
func (l *Logs) Watch(ctx context.Context, of script.Name) iter.Seq2[fleet.Logs, error] {
	return func(yield func(fleet.Logs, error) bool) {
		r := &logReader{of: of, wake: make(chan struct{}, 1)}
		if err := l.join(r); err != nil {
			yield(fleet.Logs{}, err)
			return
		}
		defer l.leave(r)
		for {
			select {
			case <-ctx.Done():
				return
			case <-r.wake:
			}
			for _, logs := range r.take() {
				if !yield(logs, nil) {
					return
				}
			}
		}
	}
}

func (l *Logs) join(r *logReader) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.mayJoin(r.of); err != nil {
		return err
	}
	if len(l.readers) == 0 {
		if err := l.begin(); err != nil {
			return err
		}
	}
	l.readers[r] = struct{}{}
	l.tails[r.of]++
	if l.connected && l.tails[r.of] == 1 {
		l.connected = l.ask(r.of)
	}
	r.tell(l.connected)
	return nil
}

// mayJoin returns an error if too many read along, of all tenants or of this one: no
// tenant can keep the others from reading.
func (l *Logs) mayJoin(of script.Name) error {
	isNew := l.tails[of] == 0
	if len(l.readers) >= maxLogReaders || isNew && len(l.tails) >= maxTails {
		return script.Errorf(script.Limit, "", "too many read along with logs at this registry: ask another replica, or again later")
	}
	readers, tails := 0, 0
	for other, n := range l.tails {
		if other.Tenant == of.Tenant {
			readers, tails = readers+n, tails+1
		}
	}
	switch {
	case readers >= maxReadersOf:
		return script.Errorf(script.Limit, "", "%d read along with logs of %s at this registry, the most for one tenant: end some", readers, of.Tenant)
	case isNew && tails >= maxTailsOf:
		return script.Errorf(script.Limit, "", "logs of %d scripts of %s are read at this registry, the most for one tenant: read all of the tenant's at once", tails, of.Tenant)
	}
	return nil
}

func (l *Logs) leave(r *logReader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.readers, r)
	if l.tails[r.of]--; l.tails[r.of] == 0 {
		delete(l.tails, r.of)
	}
	if len(l.readers) > 0 {
		return
	}
	l.stop()
	if err := l.sub.Unsubscribe(); err != nil {
		l.fan.log.Debug("the logs' subscription ended with its connection", "error", err)
	}
}

// begin is for the first reader.
func (l *Logs) begin() error {
	subject := l.fan.subjects.AllLogs()
	sub, err := l.fan.nc.Subscribe(subject, l.receive)
	if err == nil {
		err = sub.SetPendingLimits(maxPendingLogs, maxPendingLogsBytes)
	}
	if err != nil {
		return script.Errorf(script.Unavailable, "", "cannot subscribe to %s: ask another replica: %w", subject, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go l.run(ctx)
	l.sub, l.stop, l.missed = sub, cancel, 0
	l.asked, l.connected, l.reconnects = time.Now(), l.fan.Connected(), l.fan.nc.Stats().Reconnects
	if l.connected { // and listening only once the server knows of the subscription
		l.connected = l.fan.nc.FlushTimeout(subscribeWait) == nil
	}
	return nil
}

// run goes on until nobody reads any more.
func (l *Logs) run(ctx context.Context) {
	ticker := time.NewTicker(tailLook)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			l.look(ctx, now)
		}
	}
}

// look asks again when it is time to, and tells readers what has become of NATS.
func (l *Logs) look(ctx context.Context, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		return // another run may look after others already
	}
	connected, reconnects := l.fan.Connected(), l.fan.nc.Stats().Reconnects
	if l.connected && (!connected || reconnects != l.reconnects) {
		l.connected = false
		l.tellAll()
	}
	l.reconnects = reconnects
	if connected && (!l.connected || now.Sub(l.asked) >= tailEvery) {
		l.askAll(now)
	}
	if missed, err := l.sub.Dropped(); err == nil && missed > l.missed {
		for r := range l.readers {
			r.drop(uint64(missed - l.missed))
		}
		l.missed = missed
	}
}

func (l *Logs) askAll(now time.Time) {
	for of := range l.tails {
		if !l.ask(of) {
			return // it is tried again soon
		}
	}
	l.asked = now
	if !l.connected {
		l.connected = true
		l.tellAll()
	}
}

func (l *Logs) tellAll() {
	for r := range l.readers {
		r.tell(l.connected)
	}
}

// ask asks the agents for lines, and reports whether it could.
func (l *Logs) ask(of script.Name) bool {
	err := l.fan.publish(context.Background(), l.fan.subjects.Tail(), &eventv1.Tail{
		Fleet:  l.fleet(),
		Tenant: of.Tenant,
		Name:   of.Script,
		SentAt: timestamppb.Now(),
		Lasts:  durationpb.New(tailLasts),
	})
	if err != nil {
		l.fan.log.Debug("agents were not asked for logs; they are again soon", "error", err)
	}
	return err == nil
}

func (l *Logs) receive(msg *nats.Msg) {
	agent := strings.TrimPrefix(msg.Subject, l.fan.subjects.Logs(""))
	now := time.Now()
	logs, ok, err := readLogs(l.fleet(), agent, msg.Data, now)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && now.Sub(l.warned) >= warnInterval {
		l.warned = now
		l.fan.log.Warn("logs of an agent cannot be read: does its version fit this registry's? Others are logged once a minute", "agent", agent, "error", err)
	}
	if err != nil || !ok {
		return
	}
	for r := range l.readers {
		r.hear(&logs)
	}
}
