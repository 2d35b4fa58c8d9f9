package timeline

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of what a Hub keeps.
const (
	hubEvents = 4096
	hubBytes  = 4 << 20
	// hubPast is how far back a hub that starts reads, in revisions of the store: watches go on after a
	// restart without a new list.
	hubPast = 10_000
)

// Hub follows the events of a store once for all who watch, and keeps the last ones. It is a
// registry.Projection, so that it hears of a store that was restored from a backup. It is safe for
// concurrent use.
type Hub struct {
	store Store
	log   *slog.Logger
	again chan struct{} // has room for one: start anew

	mu      sync.Mutex
	located bool
	epoch   int   // counts the starts
	top     int64 // the store's mark at the start
	base    int64 // what came up to it is not known here
	head    int64 // of the last batch
	batches []hubBatch
	events  int // of all batches
	bytes   int
	grown   chan struct{} // closed at each change; nil while nobody waits
}

type hubBatch struct {
	revision int64
	events   []script.Event
	bytes    int
}

// NewHub returns a hub that knows nothing until it runs.
func NewHub(store Store, log *slog.Logger) *Hub {
	return &Hub{store: store, log: log, again: make(chan struct{}, 1)}
}

// Reset implements registry.Projection: the store may be another one than before.
func (h *Hub) Reset(registry.State) {
	select {
	case h.again <- struct{}{}:
	default: // it starts anew already
	}
}

// Apply implements registry.Projection. The watch of events brings the write.
func (h *Hub) Apply(registry.Transaction) {}

// Run follows the store until ctx is done.
func (h *Hub) Run(ctx context.Context) {
	registry.RetryForever(ctx, h.log, "following the events", func(worked func()) error {
		for ctx.Err() == nil {
			if err := h.follow(ctx, worked); err != nil {
				return err
			}
		}
		return nil
	})
}

// follow takes in what one watch yields. It returns nil if it is to start anew.
func (h *Hub) follow(ctx context.Context, worked func()) error {
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	anew := false
	waiting.Go(func() {
		select {
		case <-h.again:
			anew = true
			cancel()
		case <-ctx.Done():
		}
	})
	err := h.watch(ctx, worked)
	cancel()
	waiting.Wait()
	if anew {
		h.forget()
		return nil
	}
	return err
}

func (h *Hub) watch(ctx context.Context, worked func()) error {
	after, err := h.locate(ctx)
	if err != nil {
		return err
	}
	worked()
	for batch, err := range h.store.WatchEvents(ctx, after) {
		if errors.Is(err, registry.ErrForgotten) {
			h.forget()
			return h.startFromNow(ctx, err)
		}
		if err != nil {
			return err
		}
		h.add(&batch)
		worked()
	}
	return errors.New("the watch ended")
}

// locate returns the mark after which to go on.
func (h *Hub) locate(ctx context.Context) (int64, error) {
	h.mu.Lock()
	located, head := h.located, h.head
	h.mu.Unlock()
	if located {
		return head, nil
	}
	mark, err := h.store.Mark(ctx)
	if err != nil {
		return 0, err
	}
	base := max(0, mark-hubPast)
	h.start(base, mark)
	return base, nil
}

// startFromNow gives up what the store has forgotten. It returns why.
func (h *Hub) startFromNow(ctx context.Context, why error) error {
	mark, err := h.store.Mark(ctx)
	if err != nil {
		return errors.Join(why, err)
	}
	h.start(mark, mark)
	return why
}

func (h *Hub) start(base, top int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.located, h.base, h.head, h.top = true, base, base, top
	h.epoch++
	h.touch()
}

func (h *Hub) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.located, h.batches, h.events, h.bytes = false, nil, 0, 0
	h.touch()
}

func (h *Hub) touch() {
	if h.grown != nil {
		close(h.grown)
		h.grown = nil
	}
}

// add keeps the batch, and drops the oldest ones of what is too much. One batch is kept however large it
// is: a transaction has 41 writes at most.
func (h *Hub) add(b *Batch) {
	batch := hubBatch{revision: b.Revision, events: sorted(b)}
	for i := range batch.events {
		batch.bytes += sizeOf(&batch.events[i])
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.located || b.Revision <= h.head {
		return
	}
	h.batches = append(h.batches, batch)
	h.events, h.bytes, h.head = h.events+len(batch.events), h.bytes+batch.bytes, batch.revision
	drop := 0
	for len(h.batches)-drop > 1 && (h.events > hubEvents || h.bytes > hubBytes) {
		oldest := &h.batches[drop]
		h.events, h.bytes, h.base = h.events-len(oldest.events), h.bytes-oldest.bytes, oldest.revision
		drop++
	}
	clear(h.batches[:drop])
	h.batches = h.batches[drop:]
	h.touch()
}

// sizeOf is about how many bytes the event takes.
func sizeOf(e *script.Event) int {
	size := 256 + len(e.ID) + len(e.Key) + len(e.Author) + len(e.Text)
	for _, s := range e.Subjects {
		size += len(s) + 16
	}
	return size
}

// place is where a watch is.
type place struct {
	mark  int64
	epoch int // of the hub
}

// after returns the events above the place, moves it to where these are all, and returns what is closed
// when there are more; ok is false if some are not known here any more, or if the store was behind the
// place when the hub started. While the hub is not located, nobody knows.
func (h *Hub) after(at *place) (events []script.Event, grown <-chan struct{}, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.grown == nil {
		h.grown = make(chan struct{})
	}
	if !h.located {
		return nil, h.grown, true
	}
	if at.mark < h.base || at.epoch != 0 && at.epoch < h.epoch && at.mark > h.top {
		return nil, h.grown, false
	}
	at.epoch = h.epoch
	from, _ := slices.BinarySearchFunc(h.batches, at.mark+1, func(b hubBatch, mark int64) int { return cmp.Compare(b.revision, mark) })
	for _, b := range h.batches[from:] {
		events = append(events, b.events...)
		if at.mark = b.revision; len(events) >= maxUpdate {
			return events, closed, true
		}
	}
	return events, h.grown, true
}

// now returns the epoch for a watch that begins.
func (h *Hub) now() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.epoch
}

// maxUpdate is how many events an Update has, about.
const maxUpdate = 100

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// WatchRequest asks for the events from a token on; from now on if that is empty. It needs the roles that a
// Request does.
type WatchRequest struct {
	By access.Identity
	Filter
	Token string
}

// Update is what a watch yields: events in the order in which they were recorded, or a newer token alone.
type Update struct {
	Events []script.Event
	Token  string // a watch from here goes on without a gap
}

// tokenInterval is how often a watch gets a newer token if there are no events for it.
const tokenInterval = 10 * time.Second

// Watch yields events until ctx is done; an error is the last. It is a Conflict if the hub does not know
// any more what came after the token. Who watches has no part in what the hub keeps: one that is too
// slow gets that error, too.
func (t *Timeline) Watch(ctx context.Context, req WatchRequest) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		at, err := t.begin(ctx, &req)
		if err != nil {
			yield(Update{}, err)
			return
		}
		ticker := time.NewTicker(tokenInterval)
		defer ticker.Stop()
		told := int64(-1) // the first update says that the watch has begun
		for due := true; ctx.Err() == nil; {
			events, grown, ok := t.hub.after(&at)
			if !ok {
				yield(Update{}, errTooOld())
				return
			}
			update := Update{Token: strconv.FormatInt(at.mark, 10)}
			for i := range events {
				if req.wants(&events[i]) {
					update.Events = append(update.Events, shown(events[i], req.By))
				}
			}
			if len(update.Events) > 0 || due && told != at.mark {
				if told = at.mark; !yield(update, nil) {
					return
				}
			}
			due = false
			select {
			case <-grown:
			case <-ticker.C:
				due = true
			case <-ctx.Done():
			}
		}
	}
}

// begin returns the place that the watch goes on from.
func (t *Timeline) begin(ctx context.Context, req *WatchRequest) (at place, err error) {
	if err := req.validate(req.By); err != nil {
		return at, err
	}
	at.epoch = t.hub.now() // before the mark: a hub that starts in between compares them
	now, err := t.store.Mark(ctx)
	at.mark = now
	if err != nil || req.Token == "" {
		return at, err
	}
	mark, err := strconv.ParseInt(req.Token, 10, 64)
	if err != nil || mark < 0 {
		return at, script.Errorf(script.Invalid, "token", "%.80q does not come from a list or a watch of events", req.Token)
	}
	if mark > now {
		return at, script.Errorf(script.Conflict, "token", "the registry's store is behind it, as after a restore from a backup: list the events since the last one, and watch from the token of the list")
	}
	at.mark = mark
	return at, nil
}

func errTooOld() error {
	return script.Errorf(script.Conflict, "token", "the registry does not know any more what came after it: list the events since the last one, and watch from the token of the list")
}
