package follow

import (
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
)

// Bounds of what waits to be applied. Over them the follower forgets what waits
// and syncs.
const (
	maxWaiting      = 4096
	maxWaitingBytes = 32 << 20
)

// inbox takes in what the feed delivers, never blocks it, and keeps the order.
type inbox struct {
	signal chan struct{}

	mu  sync.Mutex
	in  incoming
	len int // bytes of the events in it
}

// incoming is what came in since the last look.
type incoming struct {
	messages  []message // events and beacons
	malformed int
	lost      bool
	rollCall  bool
	connected bool
}

type message struct {
	at   time.Time
	body proto.Message
}

func (b *inbox) init() { b.signal = make(chan struct{}, 1) }

func (b *inbox) Event(e *eventv1.Event) { b.add(e, proto.Size(e)) }

func (b *inbox) Beacon(e *eventv1.Beacon) { b.add(e, 0) }

func (b *inbox) RollCall(*eventv1.RollCall) {
	b.change(func() { b.in.rollCall = true })
}

func (b *inbox) Lost() {
	b.change(func() { b.in.lost = true })
}

func (b *inbox) Malformed() {
	b.change(func() { b.in.malformed++ })
}

func (b *inbox) Connected(is bool) {
	b.change(func() { b.in.connected = is })
}

func (b *inbox) add(m proto.Message, size int) {
	at := time.Now()
	b.change(func() {
		if len(b.in.messages) >= maxWaiting || b.len+size > maxWaitingBytes {
			b.in.messages, b.in.lost, b.len = nil, true, 0
		}
		b.in.messages = append(b.in.messages, message{at: at, body: m})
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
