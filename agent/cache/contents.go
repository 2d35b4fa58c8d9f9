package cache

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Reader is where the contents of values come from.
type Reader interface {
	// Content returns the verified content, which nobody changes from then on. It does
	// not wait for the network. Its errors are of kind Unavailable.
	Content(d script.Digest) ([]byte, error)
}

// contents are those of the values in use: one copy of each, within a budget of
// bytes.
type contents struct {
	from   Reader
	budget int64
	loads  singleflight.Group

	mu    sync.Mutex // guards what follows; nothing is read under it
	lru   *simplelru.LRU[script.Digest, *held]
	bytes int64
}

// held is a content's place. A value that uses it remembers it; it is empty once the
// content had to give way.
type held struct {
	content atomic.Pointer[[]byte]
	used    atomic.Bool // since the cache last looked for something to give up
	bytes   int64
}

// get returns what the place holds, or nil.
func (h *held) get() *[]byte {
	content := h.content.Load()
	if content != nil && !h.used.Load() { // a load is cheaper than a store that other cores see
		h.used.Store(true)
	}
	return content
}

func newContents(from Reader, budget int64) *contents {
	lru, err := simplelru.NewLRU[script.Digest, *held](math.MaxInt, nil)
	if err != nil {
		panic(err) // only a size of 0 or less is an error
	}
	return &contents{from: from, budget: budget, lru: lru}
}

// load returns the content with the digest, and its place. Who asks for one that is
// being read waits for that.
func (c *contents) load(d script.Digest) (*held, []byte, error) {
	type loaded struct {
		held    *held
		content []byte
	}
	got, err, _ := c.loads.Do(string(d[:]), func() (any, error) {
		if h, content := c.lookup(d); content != nil {
			return loaded{h, *content}, nil
		}
		content, err := c.from.Content(d)
		if err != nil {
			return nil, err
		}
		return loaded{c.insert(d, content), content}, nil
	})
	if err != nil {
		return nil, nil, err
	}
	l := got.(loaded)
	return l.held, l.content, nil
}

func (c *contents) lookup(d script.Digest) (*held, *[]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, ok := c.lru.Get(d)
	if !ok {
		return nil, nil
	}
	return h, h.content.Load()
}

// insert keeps the content, and gives up those that have to give way for it. One is
// kept even if it is larger than the budget.
func (c *contents) insert(d script.Digest, content []byte) *held {
	h := &held{bytes: int64(len(content)) + overhead}
	h.content.Store(&content)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Add(d, h)
	c.bytes += h.bytes
	chances := c.lru.Len() // one each, or readers that never rest keep this loop going
	for c.bytes > c.budget && c.lru.Len() > 1 {
		digest, old, _ := c.lru.GetOldest()
		if old == h || (old.used.Swap(false) && chances > 0) {
			c.lru.Get(digest)
			chances--
			continue
		}
		c.lru.Remove(digest)
		c.bytes -= old.bytes
		old.content.Store(nil) // calls in flight keep what they have
	}
	return h
}

// holds returns how many bytes are held.
func (c *contents) holds() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}
