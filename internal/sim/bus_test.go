package sim

import (
	"strings"
	"sync"
)

// bus is what NATS is to the fleet: it carries messages by their subjects, and
// promises nothing.
type bus struct {
	line *timeline
	seed uint64

	mu    sync.Mutex
	down  bool
	peers []*peer
	tape  []message // of the feed, for those who forge
	// statuses are the same of agents' statuses.
	statuses []message
	// alter, if not nil, is a bug that is put in on purpose: it returns what becomes
	// of a message of the feed.
	alter func(message) []message
	// overhear, if not nil, is called with each message of the feed.
	overhear func(message)
}

type message struct {
	subject string
	data    []byte
}

// tapeLength is how many messages somebody who listens in remembers.
const tapeLength = 256

// peer is a client of the bus.
type peer struct {
	bus      *bus
	up, down *link

	mu        sync.Mutex
	wants     func(subject string) bool // nil: it is not there
	receive   func(message)
	connected func(bool)
	is        bool
}

func (b *bus) join(name string) *peer {
	p := &peer{
		bus:  b,
		up:   &link{name: name + " up", seed: b.seed, line: b.line},
		down: &link{name: name + " down", seed: b.seed, line: b.line},
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.peers = append(b.peers, p)
	return p
}

// attach lets a process use the peer's connection. The functions must not block.
func (p *peer) attach(wants func(string) bool, receive func(message), connected func(bool)) {
	p.mu.Lock()
	p.wants, p.receive, p.connected, p.is = wants, receive, connected, false
	p.mu.Unlock()
	p.notice()
}

// detach is what the end of a process does.
func (p *peer) detach() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wants, p.receive, p.connected, p.is = nil, nil, nil, false
}

// online reports whether the connection is up.
func (p *peer) online() bool {
	p.bus.mu.Lock()
	down := p.bus.down
	p.bus.mu.Unlock()
	return !down && !p.up.isCut()
}

// notice tells the process when its connection has come or gone.
func (p *peer) notice() {
	is := p.online()
	p.mu.Lock()
	tell := p.connected
	if tell == nil || p.is == is {
		p.mu.Unlock()
		return
	}
	p.is = is
	p.mu.Unlock()
	tell(is)
}

// set changes what happens to the peer's messages, both ways.
func (p *peer) set(f linkFaults) {
	p.up.set(f)
	p.down.set(f)
	p.bus.line.in(latency, p.notice)
}

func (b *bus) setDown(down bool) {
	b.mu.Lock()
	b.down = down
	peers := b.peers
	b.mu.Unlock()
	for _, p := range peers {
		b.line.in(latency, p.notice)
	}
}

// publish hands a message to the bus. It reports whether there is a connection.
func (p *peer) publish(m message) bool {
	if !p.online() {
		return false
	}
	p.up.send(func() { p.bus.spread(m) })
	return true
}

// spread delivers a message to all who want it.
func (b *bus) spread(m message) {
	b.mu.Lock()
	if b.down {
		b.mu.Unlock()
		return
	}
	feed := strings.Contains(m.subject, ".feed.")
	if feed {
		b.tape = append(b.tape, m)
		b.tape = b.tape[max(0, len(b.tape)-tapeLength):]
		if b.overhear != nil {
			b.overhear(m)
		}
	}
	if strings.Contains(m.subject, ".status.") {
		b.statuses = append(b.statuses, m)
		b.statuses = b.statuses[max(0, len(b.statuses)-tapeLength):]
	}
	peers, alter := b.peers, b.alter
	b.mu.Unlock()
	messages := []message{m}
	if alter != nil && feed {
		messages = alter(m)
	}
	for _, m := range messages {
		for _, p := range peers {
			p.deliver(m)
		}
	}
}

// deliver sends a message to the peer if it wants it.
func (p *peer) deliver(m message) {
	p.mu.Lock()
	wanted := p.wants != nil && p.wants(m.subject)
	p.mu.Unlock()
	if wanted {
		p.down.send(func() { p.arrive(m) })
	}
}

func (p *peer) arrive(m message) {
	p.mu.Lock()
	receive := p.receive
	p.mu.Unlock()
	if receive != nil {
		receive(m)
	}
}

// overheardStatuses returns the statuses that were overheard.
func (b *bus) overheardStatuses() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]message(nil), b.statuses...)
}

// recorded returns what was overheard.
func (b *bus) recorded() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]message(nil), b.tape...)
}
