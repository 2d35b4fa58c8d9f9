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

// Bounds of a Hub.
const (
	hubEvents = 4096
	hubBytes  = 4 << 20
	// hubPast is the number of past revisions that a hub reads when it starts. So watches can resume after a restart
	// without a new list.
	hubPast = 10_000
)

// Hub follows the events of a store for all watches, and keeps the newest events in memory. It is a
// registry.Projection, so that it notices that the store was restored from a backup. It is safe for concurrent
// use.
type Hub struct {
	store   Store
	log     *slog.Logger
	restart chan struct{} // buffered: requests a restart

	mu      sync.Mutex
	located bool
	epoch   int   // counts the starts
	top     int64 // the store's mark at the start
	base    int64 // the hub has no events up to this mark
	head    int64 // the revision of the last batch
	batches []hubBatch
	events  int // of all batches
	bytes   int
	changed chan struct{} // closed at each change; nil while nobody waits
}

type hubBatch struct {
	revision int64
	events   []script.Event
	bytes    int
}

// NewHub returns a hub. It is empty until Run.
func NewHub(store Store, log *slog.Logger) *Hub {
	return &Hub{store: store, log: log, restart: make(chan struct{}, 1)}
}

// Reset implements registry.Projection. It requests a restart: the content of the store may have been replaced.
func (h *Hub) Reset(registry.State) {
	select {
	case h.restart <- struct{}{}:
	default: // a restart is pending
	}
}

// Apply implements registry.Projection. It does nothing: the hub gets writes from its own watch.
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

// follow adds the batches of one watch. It returns nil to start again after Reset.
func (h *Hub) follow(ctx context.Context, worked func()) error {
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	restarted := false
	waiting.Go(func() {
		select {
		case <-h.restart:
			restarted = true
			cancel()
		case <-ctx.Done():
		}
	})
	err := h.watch(ctx, worked)
	cancel()
	waiting.Wait()
	if restarted {
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

// locate returns the mark after which the watch begins.
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

// startFromNow skips events that the store has compacted. It returns why.
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
	h.notify()
}

func (h *Hub) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.located, h.batches, h.events, h.bytes = false, nil, 0, 0
	h.notify()
}

func (h *Hub) notify() {
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// add adds the batch, and drops the oldest batches above the limits. It always keeps the newest one: a transaction has
// at most 41 writes.
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
	h.notify()
}

// sizeOf estimates the bytes that the event takes.
func sizeOf(e *script.Event) int {
	size := 256 + len(e.ID) + len(e.Key) + len(e.Author) + len(e.Text)
	for _, s := range e.Subjects {
		size += len(s) + 16
	}
	return size
}

// place is the position of a watch.
type place struct {
	mark  int64
	epoch int // of the hub
}

// after returns the events after the position, and moves it behind them. changed is closed when there are more.
// ok is false if the hub has dropped some of these events, or if the store was behind the position when the hub
// started. A hub that is not located returns no events.
func (h *Hub) after(at *place) (events []script.Event, changed <-chan struct{}, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	if !h.located {
		return nil, h.changed, true
	}
	if at.mark < h.base || at.epoch != 0 && at.epoch < h.epoch && at.mark > h.top {
		return nil, h.changed, false
	}
	at.epoch = h.epoch
	from, _ := slices.BinarySearchFunc(h.batches, at.mark+1, func(b hubBatch, mark int64) int { return cmp.Compare(b.revision, mark) })
	for _, b := range h.batches[from:] {
		events = append(events, b.events...)
		if at.mark = b.revision; len(events) >= maxUpdate {
			return events, closed, true
		}
	}
	return events, h.changed, true
}

// now returns the epoch for a watch that begins.
func (h *Hub) now() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.epoch
}

// maxUpdate is the approximate maximum of events in an Update.
const maxUpdate = 100

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// WatchRequest selects the events after a token, or after now if it is empty. It needs the same roles as a Request.
type WatchRequest struct {
	By access.Identity
	Filter
	Token string
}

// Update has events in the order in which they were recorded, or only a newer token.
type Update struct {
	Events []script.Event
	Token  string // a new watch with it resumes without a gap
}

// tokenInterval is how often a watch without events gets a newer token.
const tokenInterval = 10 * time.Second

// Watch yields events until ctx is done or an error ends it. The error is a Conflict if the hub has dropped events
// after the token. A watch that is too slow gets it, too: the hub keeps no events for slow watches.
func (t *Timeline) Watch(ctx context.Context, req WatchRequest) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		at, err := t.begin(ctx, &req)
		if err != nil {
			yield(Update{}, err)
			return
		}
		ticker := time.NewTicker(tokenInterval)
		defer ticker.Stop()
		sent := int64(-1) // the mark of the last update; the first update reports that the watch has begun
		for due := true; ctx.Err() == nil; {
			events, changed, ok := t.hub.after(&at)
			if !ok {
				yield(Update{}, errTooOld())
				return
			}
			update := Update{Token: strconv.FormatInt(at.mark, 10)}
			for i := range events {
				if req.wants(&events[i]) {
					update.Events = append(update.Events, redact(events[i], req.By))
				}
			}
			if len(update.Events) > 0 || due && sent != at.mark {
				if sent = at.mark; !yield(update, nil) {
					return
				}
			}
			due = false
			select {
			case <-changed:
			case <-ticker.C:
				due = true
			case <-ctx.Done():
			}
		}
	}
}

// begin returns the position at which the watch begins.
func (t *Timeline) begin(ctx context.Context, req *WatchRequest) (at place, err error) {
	if err := req.validate(req.By); err != nil {
		return at, err
	}
	at.epoch = t.hub.now() // before Mark, so that after notices a hub that starts in between
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
