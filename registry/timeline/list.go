package timeline

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/turns"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Timeline lists and watches events.
type Timeline struct {
	store    Store
	hub      *Hub
	searches *turns.Turns
}

// New returns the timeline of the store. The hub must follow the same store.
//
// A search of the audit trail can read many entries to find a few, and needs only the role read on one tenant. So at
// most two searches run at a time, one per caller. A long search keeps its place for three times its duration after its
// end.
func New(store Store, hub *Hub) *Timeline {
	return &Timeline{store: store, hub: hub, searches: turns.New(turns.Config{
		Concurrent: 2, PerCaller: 1, RestFactor: 3, MinRest: 60 * time.Millisecond, Busy: "many others search the audit trail",
	})}
}

// Request selects a page of events. It needs the role read for the tenant, or for all tenants if it names none.
type Request struct {
	By access.Identity
	Filter
	Since     time.Time // the zero Time: all stored events
	PageSize  int       // 0: registry.DefaultAuditPageSize; at most registry.MaxPageSize
	PageToken string    // NextPageToken of the previous page
}

// Result is a page of events, newest first. A page can be empty although more pages follow.
type Result struct {
	Events        []script.Event
	NextPageToken string // "" on the last page
	// WatchToken is on the first page. Watch with it begins after the listed events.
	WatchToken string
}

// pageBytes bounds a page, so that its message stays below the default limit of gRPC clients (4 MiB).
const pageBytes = 2 << 20

// List returns a page of events.
func (t *Timeline) List(ctx context.Context, req Request) (Result, error) {
	if err := req.validate(req.By); err != nil {
		return Result{}, err
	}
	if req.PageSize < 0 {
		return Result{}, script.Errorf(script.Invalid, "page_size", "%d is negative", req.PageSize)
	}
	size := min(cmp.Or(req.PageSize, registry.DefaultAuditPageSize), registry.MaxPageSize)
	var result Result
	at, err := parseCursor(req.PageToken)
	if err != nil {
		return Result{}, err
	}
	if req.PageToken == "" {
		mark, err := t.store.Mark(ctx)
		if err != nil {
			return Result{}, err
		}
		result.WatchToken = strconv.FormatInt(mark, 10)
		writes, records := req.sources()
		at = cursor{WritesOver: !writes, RecordsOver: !records}
	}
	writes, records := &stream{place: at.Writes, over: at.WritesOver}, &stream{place: at.Records, over: at.RecordsOver}
	if err := t.read(ctx, &req, size, writes, records); err != nil {
		return Result{}, err
	}
	bytes := 0
	for e := range merged(size, writes, records) {
		result.Events = append(result.Events, redact(e, req.By))
		if bytes += sizeOf(&e); bytes > pageBytes {
			break
		}
	}
	at.Writes, at.WritesOver = writes.end()
	at.Records, at.RecordsOver = records.end()
	result.NextPageToken = at.token()
	return result, nil
}

// read reads the next items of both streams.
func (t *Timeline) read(ctx context.Context, req *Request, size int, writes, records *stream) (err error) {
	switch {
	case writes.over:
	case req.Script != "": // its cost does not depend on writes of other scripts
		err = t.readHistory(ctx, req, writes)
	default:
		err = t.search(ctx, req, size, writes)
	}
	if err != nil || records.over {
		return err
	}
	return readPage(ctx, t.store.Records, records, Query[Record]{Since: req.Since, Limit: size, Wants: func(r *Record) bool {
		return req.wants(&r.Event)
	}}, func(r *Record) script.Event { return r.Event })
}

// search reads the next page of the audit trail when it is the caller's turn.
func (t *Timeline) search(ctx context.Context, req *Request, size int, writes *stream) error {
	end, err := t.searches.Begin(ctx, req.By.Subject)
	if err != nil {
		return err
	}
	began := time.Now()
	defer func() { end(time.Since(began)) }()
	return readPage(ctx, t.store.Writes, writes, Query[script.AuditEntry]{Since: req.Since, Limit: size, Wants: func(e *script.AuditEntry) bool {
		event := eventOfWrite(e)
		return isEvent(e) && req.wants(&event)
	}}, eventOfWrite)
}

func readPage[T any](ctx context.Context, read func(context.Context, Query[T]) (Page[T], error), s *stream, q Query[T], event func(*T) script.Event) error {
	q.After = s.place
	page, err := read(ctx, q)
	if err != nil {
		return err
	}
	s.next, s.down = page.Next, page.Down
	for i := range page.Items {
		s.items = append(s.items, Item[script.Event]{event(&page.Items[i].Of), page.Items[i].Place})
	}
	return nil
}

// readHistory reads the script's history, at most registry.MaxHistory entries. It skips entries that were imported
// from another registry.
func (t *Timeline) readHistory(ctx context.Context, req *Request, s *stream) error {
	name := script.Name{Tenant: req.Tenant, Script: req.Script}
	lines, err := t.store.History(ctx, name)
	if err != nil {
		return err
	}
	after := script.Revision(0)
	if s.place != "" {
		n, err := strconv.ParseInt(s.place, 10, 64)
		if err != nil {
			return errToken(req.PageToken)
		}
		after = script.Revision(n)
	}
	for i := range lines {
		e := eventOfLine(name, &lines[i])
		if e.Revision != 0 && (after == 0 || e.Revision < after) && !e.Time.Before(req.Since) && req.wants(&e) {
			s.items = append(s.items, Item[script.Event]{e, strconv.FormatInt(int64(e.Revision), 10)})
		}
	}
	return nil
}

// stream has the items that were read from one source, newest first.
type stream struct {
	place string // where it begins
	over  bool   // the source has no more items
	items []Item[script.Event]
	used  int
	next  string
	down  time.Time
}

// end returns the place at which the next page begins.
func (s *stream) end() (place string, over bool) {
	switch {
	case s.over:
		return "", true
	case s.used == len(s.items):
		return s.next, s.next == ""
	case s.used > 0:
		return s.items[s.used-1].Place, false
	}
	return s.place, false
}

// merged yields at most limit events of the streams, newest first. It stops at the time down to which all streams were
// read.
func merged(limit int, streams ...*stream) func(yield func(script.Event) bool) {
	var horizon time.Time
	for _, s := range streams {
		if !s.over && s.next != "" && s.down.After(horizon) {
			horizon = s.down
		}
	}
	return func(yield func(script.Event) bool) {
		for range limit {
			var newest *stream
			for _, s := range streams {
				if s.used < len(s.items) && (newest == nil || newest.items[newest.used].Of.Time.Before(s.items[s.used].Of.Time)) {
					newest = s
				}
			}
			if newest == nil || newest.items[newest.used].Of.Time.Before(horizon) {
				return
			}
			newest.used++
			if !yield(newest.items[newest.used-1].Of) {
				return
			}
		}
	}
}

// cursor is where a page ends in both sources.
type cursor struct {
	Writes      string `json:"w,omitempty"`
	WritesOver  bool   `json:"wo,omitempty"`
	Records     string `json:"r,omitempty"`
	RecordsOver bool   `json:"ro,omitempty"`
}

// token returns the page token; "" after the last page.
func (p cursor) token() string {
	if p.WritesOver && p.RecordsOver {
		return ""
	}
	text, _ := json.Marshal(p) // strings and bools: no error
	return base64.RawURLEncoding.EncodeToString(text)
}

const maxTokenBytes = 512

func parseCursor(token string) (p cursor, err error) {
	if token == "" {
		return p, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token[:min(len(token), maxTokenBytes)])
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return p, errToken(token)
	}
	return p, nil
}

func errToken(token string) error {
	return script.Errorf(script.Invalid, "page_token", "%.80q does not come from a page of events", token)
}

// sorted returns the events of a batch in an order that does not depend on the store.
func sorted(b *Batch) []script.Event {
	events := make([]script.Event, 0, len(b.Writes)+len(b.Records))
	for i := range b.Writes {
		if isEvent(&b.Writes[i]) {
			events = append(events, eventOfWrite(&b.Writes[i]))
		}
	}
	for i := range b.Records {
		events = append(events, b.Records[i].Event)
	}
	slices.SortFunc(events, func(a, b script.Event) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID)) })
	return events
}
