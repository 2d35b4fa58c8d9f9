package tryout

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"sync"
	"time"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of contents that wait for their query.
const (
	maxContents     = 8
	maxContentBytes = 32 << 20 // of them all
	// keptFor is how long a content waits for its query, which comes right after it.
	keptFor = 10 * time.Second
	// contentPatience is how long a query waits for its content.
	contentPatience = 5 * time.Second
)

// Contents holds what registries send before their queries, for seconds. The zero Contents is empty. It is safe for
// concurrent use.
type Contents struct {
	mu    sync.Mutex
	all   map[string]*content // by the id of the query
	bytes int
}

// content is what came of the content of a query.
type content struct {
	data  []byte
	next  uint32 // number of the next part
	done  chan struct{}
	ended bool        // done is closed: all is there, or never will be
	drop  *time.Timer // when nobody asks for it
}

// Add takes a part whose signature was verified. It returns at once.
func (c *Contents) Add(m *eventv1.QueryContent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	in := c.of(m.GetId())
	if in == nil || in.ended || m.GetNumber() != in.next {
		return // a part is missing, or came twice: the query finds too few bytes
	}
	if c.bytes+len(m.GetData()) > maxContentBytes || len(in.data)+len(m.GetData()) > MaxScriptSize {
		c.remove(m.GetId())
		return
	}
	in.data = append(in.data, m.GetData()...)
	c.bytes += len(m.GetData())
	in.next++
	if m.GetLast() {
		in.ended = true
		close(in.done)
	}
}

// of returns the content of the query; nil if there is no room for another. c.mu is held.
func (c *Contents) of(id string) *content {
	if in := c.all[id]; in != nil {
		return in
	}
	if len(c.all) >= maxContents {
		return nil
	}
	if c.all == nil {
		c.all = map[string]*content{}
	}
	in := &content{done: make(chan struct{})}
	in.drop = time.AfterFunc(keptFor, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.all[id] == in {
			c.remove(id)
		}
	})
	c.all[id] = in
	return in
}

// remove forgets the content. c.mu is held.
func (c *Contents) remove(id string) {
	in := c.all[id]
	if in == nil {
		return
	}
	in.drop.Stop()
	c.bytes -= len(in.data)
	in.data = nil
	if !in.ended {
		in.ended = true
		close(in.done)
	}
	delete(c.all, id)
}

// Take returns the content of the query, and forgets it. It waits for what is still on its way.
func (c *Contents) Take(ctx context.Context, id string, q *eventv1.TryQuery) ([]byte, error) {
	c.mu.Lock()
	in := c.of(id)
	c.mu.Unlock()
	if in == nil {
		return nil, busy()
	}
	timer := time.NewTimer(contentPatience)
	defer timer.Stop()
	select {
	case <-in.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	c.mu.Lock()
	data := in.data
	if c.all[id] == in {
		c.remove(id)
	}
	c.mu.Unlock()
	digest := sha256.Sum256(data)
	if int64(len(data)) != q.GetSize() || subtle.ConstantTimeCompare(digest[:], q.GetDigest()) != 1 {
		return nil, script.Errorf(script.Unavailable, "", "the script did not reach the agent over NATS: do its users have the subject PREFIX.content.> (deploy/nats/nats-server.conf)?")
	}
	return data, nil
}

func busy() error {
	return script.Errorf(script.Overloaded, "", "the agent tries other scripts now: try again, or on another agent")
}
