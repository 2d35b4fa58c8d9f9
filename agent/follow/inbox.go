package follow

import (
	"sync"
	"time"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
)

// Bounds of what waits to be applied. Over them the follower forgets what waits
// and syncs.
const (
	maxWaiting      = 4096
	maxWaitingBytes = 32 << 20
)

// inbox takes in what the feed delivers, never blocks it, and keeps the order of
// what is believed.
type inbox struct {
	signal   chan struct{}
	open     opener
	refusals *refusals

	mu  sync.Mutex
	in  incoming
	len int // bytes of the events in it
}

// incoming is what came in since the last look.
type incoming struct {
	messages  []message
	lost      bool
	connected bool
	changed   bool // what the agent tells in its status, by itself
}

// message is one of these.
type message struct {
	event    *event
	beacon   *beacon
	rollCall *string // the fleet
	tail     *Tail
	recall   *Recall
	query    *eventv1.Query
	content  *eventv1.QueryContent
}

func (b *inbox) init(open opener, refusals *refusals) {
	b.signal, b.open, b.refusals = make(chan struct{}, 1), open, refusals
}

func (b *inbox) Event(data []byte) {
	e, err := b.open.event(data)
	if err != nil {
		b.refusals.note("event", err)
		return
	}
	b.add(message{event: e}, e.bytes)
}

func (b *inbox) Beacon(data []byte) {
	m, err := b.open.beacon(data, time.Now())
	if err != nil {
		b.refusals.note("beacon", err)
		return
	}
	b.add(message{beacon: m}, 0)
}

func (b *inbox) RollCall(data []byte) {
	fleet, err := b.open.rollCall(data)
	if err != nil {
		b.refusals.note("roll call", err)
		return
	}
	b.add(message{rollCall: &fleet}, 0)
}

func (b *inbox) Tail(data []byte) {
	t, err := b.open.tail(data)
	if err != nil {
		b.refusals.note("tail", err)
		return
	}
	b.add(message{tail: t}, 0)
}

func (b *inbox) Recall(data []byte) {
	r, err := b.open.recall(data)
	if err != nil {
		b.refusals.note("recall", err)
		return
	}
	b.add(message{recall: r}, 0)
}

func (b *inbox) Query(data []byte) {
	q, err := b.open.query(data)
	if err != nil {
		b.refusals.note("query", err)
		return
	}
	b.add(message{query: q}, len(data))
}

func (b *inbox) Content(data []byte) {
	c, err := b.open.content(data)
	if err != nil {
		b.refusals.note("query's content", err)
		return
	}
	b.add(message{content: c}, len(data))
}

func (b *inbox) Lost() {
	b.change(func() { b.in.lost = true })
}

func (b *inbox) Connected(is bool) {
	b.change(func() { b.in.connected = is })
}

func (b *inbox) changed() {
	b.change(func() { b.in.changed = true })
}

func (b *inbox) add(m message, size int) {
	b.change(func() {
		if len(b.in.messages) >= maxWaiting || b.len+size > maxWaitingBytes {
			b.in.messages, b.in.lost, b.len = nil, true, 0
		}
		b.in.messages = append(b.in.messages, m)
		b.len += size
	})
}

func (b *inbox) change(do func()) {
	b.mu.Lock()
	do()
	b.mu.Unlock()
	select {
	case b.signal <- struct{}{}:
	default:
	}
}

func (b *inbox) take() incoming {
	b.mu.Lock()
	defer b.mu.Unlock()
	in := b.in
	b.in, b.len = incoming{}, 0
	return in
}
