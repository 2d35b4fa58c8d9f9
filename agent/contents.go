package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/store"
	"github.com/scriptorium-dev/scriptorium/script"
)

// contents of values come from disk. One that was lost there is fetched in the
// background, since a call that reads a value does not wait for the network.
type contents struct {
	sources *sources
	ctx     context.Context // done when the agent is closed
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	tried map[script.Digest]time.Time // when what is lost was last asked for; nil: closed
}

func newContents(from *sources) *contents {
	ctx, cancel := context.WithCancel(context.Background())
	return &contents{sources: from, ctx: ctx, cancel: cancel, tried: map[script.Digest]time.Time{}}
}

// close ends what is being fetched.
func (c *contents) close() {
	c.mu.Lock()
	c.tried = nil
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
}

var _ cache.Reader = (*contents)(nil)

// fetchApart is the least time between two attempts to fetch the same content.
const fetchApart = time.Second

// Content implements cache.Reader.
func (c *contents) Content(d script.Digest) ([]byte, error) {
	content, err := c.sources.store.Source(d)
	switch {
	case err == nil:
		return content, nil
	case !errors.Is(err, store.ErrMissing):
		return nil, script.Errorf(script.Unavailable, "disk", "the value cannot be read: %w", err)
	}
	c.want(d, time.Now())
	return nil, script.Errorf(script.Unavailable, "", "the value's content was lost on this agent and is being fetched again: %w", err)
}

// want has the content fetched, if it was not tried just now.
func (c *contents) want(d script.Digest, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tried == nil || now.Sub(c.tried[d]) < fetchApart {
		return
	}
	for other, at := range c.tried { // few: what is lost and was asked for within a second
		if now.Sub(at) >= fetchApart {
			delete(c.tried, other)
		}
	}
	c.tried[d] = now
	c.running.Go(func() { c.fetch(d) })
}

// fetch brings the content to disk.
func (c *contents) fetch(d script.Digest) {
	if _, err := c.sources.Source(c.ctx, d); err != nil {
		c.sources.log.Warn("the content of a value is lost and cannot be fetched; it is tried again when it is asked for",
			"digest", d.String(), "error", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tried, d)
}
