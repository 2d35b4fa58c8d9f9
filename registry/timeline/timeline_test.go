package timeline_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/registry/timeline"
	"github.com/scriptorium-dev/scriptorium/script"
)

var (
	everybody = access.Everybody("unix")
	start     = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// counted is a store that counts what is asked of it, and can fail.
type counted struct {
	*memstore.Store

	mu     sync.Mutex
	pages  int // of the audit trail
	items  int // of these
	puts   int
	broken error // of PutRecords
}

func (c *counted) Writes(ctx context.Context, q timeline.Query[script.AuditEntry]) (timeline.Page[script.AuditEntry], error) {
	page, err := c.Store.Writes(ctx, q)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pages, c.items = c.pages+1, c.items+len(page.Items)
	return page, err
}

func (c *counted) PutRecords(ctx context.Context, records []timeline.Record) error {
	c.mu.Lock()
	c.puts++
	err := c.broken
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.Store.PutRecords(ctx, records)
}

func (c *counted) breaks(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = err
}

func (c *counted) writes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.puts
}

// bench is a timeline of a store that tests write to.
type bench struct {
	*timeline.Timeline
	t     *testing.T
	store *counted
	hub   *timeline.Hub
	now   time.Time // of the next write
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, store: &counted{Store: memstore.New()}, now: start}
	b.hub = timeline.NewHub(b.store, slog.New(slog.DiscardHandler))
	b.Timeline = timeline.New(b.store, b.hub)
	return b
}

// follow runs the hub until the test is over, or stop is called.
func (b *bench) follow() (stop func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.hub.Run(ctx) })
	stop = func() {
		cancel()
		running.Wait()
	}
	b.t.Cleanup(stop)
	return stop
}

// write adds an entry to the audit trail, and to the history of a script, a second after the last.
func (b *bench) write(name script.Name, change script.Change, note string) {
	b.t.Helper()
	b.now = b.now.Add(time.Second)
	cur, err := b.store.Release(b.t.Context(), name)
	if err != nil && script.KindOf(err) != script.NotFound {
		b.t.Fatal(err)
	}
	next := cur
	next.Name, next.ChangedAt = name, b.now
	entry := script.HistoryEntry{Change: change, Version: 3, Author: "ann via ci", Note: note, Time: b.now}
	freeze, _ := b.store.Freeze(b.t.Context())
	_, err = b.store.Commit(b.t.Context(), registry.Commit{Guard: cur.Revision, FreezeGuard: freeze.Revision, Release: next, Entry: entry, Audit: script.AuditEntry{
		Time: b.now, Name: name, Change: change, Version: 3, Author: "ann", Identity: "ci", Peer: "10.0.0.7:1234", Note: note,
	}})
	if err != nil {
		b.t.Fatal(err)
	}
}

// record stores a record, a second after the last write.
func (b *bench) record(of script.EventType, what, tenant, text string) {
	b.t.Helper()
	b.now = b.now.Add(time.Second)
	r := timeline.Record{Event: script.Event{Time: b.now, Type: of, What: what, Tenant: tenant, Text: text}}
	if err := b.store.PutRecords(b.t.Context(), []timeline.Record{r}); err != nil {
		b.t.Fatal(err)
	}
}

func named(tenant, name string) script.Name { return script.Name{Tenant: tenant, Script: name} }

// texts are those of the events, oldest first.
func texts(events []script.Event) string {
	var all []string
	for i := range slices.Backward(events) {
		all = append(all, events[i].Text)
	}
	return strings.Join(all, " ")
}

// list reads all pages.
func (b *bench) list(req timeline.Request) (all []script.Event) {
	b.t.Helper()
	for range 10_000 {
		result, err := b.List(b.t.Context(), req)
		if err != nil {
			b.t.Fatal(err)
		}
		if (result.WatchToken != "") != (req.PageToken == "") {
			b.t.Errorf("watch token %q of page %q", result.WatchToken, req.PageToken)
		}
		all = append(all, result.Events...)
		if req.PageToken = result.NextPageToken; req.PageToken == "" {
			return all
		}
	}
	b.t.Fatal("there is no last page")
	return nil
}

func (b *bench) some() {
	b.t.Helper()
	b.write(named("acme", "route"), script.ChangePublish, "1")
	b.record(script.EventAgent, "lost", "", "2")
	b.write(named("shop", "cart"), script.ChangePublish, "3")
	b.record(script.EventQuota, "refused", "acme", "4")
	b.record(script.EventQuota, "near", "shop", "5")
	b.write(named("acme", "route"), script.ChangeAdvance, "6")
	b.write(named("acme", "auth"), script.ChangePublish, "7")
	b.record(script.EventKey, "signing", "", "8")
	b.now = b.now.Add(time.Second)
	_, err := b.store.CommitFreeze(b.t.Context(), registry.FreezeCommit{
		Freeze: script.Freeze{Author: "ann", Since: b.now, ChangedAt: b.now},
		Audit:  script.AuditEntry{Time: b.now, Change: script.ChangeFreeze, Author: "ann", Note: "9 [until then, except shop/cart]"},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.write(named("acme", "route"), script.ChangeAbort, "10")
	b.record(script.EventAgent, "back", "", "11")
}

// TestList: whatever the size of the pages, they have each event of both sources once, in order.
func TestList(t *testing.T) {
	b := newBench(t)
	b.some()
	const frozen = "9 [until then, except shop/cart]"
	for what, c := range map[string]struct {
		req  timeline.Request
		want string
	}{
		"the fleet":         {timeline.Request{}, "1 2 3 4 5 6 7 8 " + frozen + " 10 11"},
		"a tenant":          {timeline.Request{Filter: timeline.Filter{Tenant: "acme"}}, "1 4 6 7 " + frozen + " 10"},
		"a script":          {timeline.Request{Filter: timeline.Filter{Tenant: "acme", Script: "route"}}, "1 4 6 10"},
		"nobody's":          {timeline.Request{Filter: timeline.Filter{Tenant: "nobody"}}, frozen},
		"since":             {timeline.Request{Since: start.Add(8 * time.Second)}, "8 " + frozen + " 10 11"},
		"a script since":    {timeline.Request{Since: start.Add(6 * time.Second), Filter: timeline.Filter{Tenant: "acme", Script: "route"}}, "6 10"},
		"records":           {timeline.Request{Filter: timeline.Filter{Types: []script.EventType{script.EventAgent}}}, "2 11"},
		"rollouts":          {timeline.Request{Filter: timeline.Filter{Types: []script.EventType{script.EventRollout}}}, "6 10"},
		"both":              {timeline.Request{Filter: timeline.Filter{Types: []script.EventType{script.EventRollout, script.EventKey}}}, "6 8 10"},
		"none of the types": {timeline.Request{Filter: timeline.Filter{Types: []script.EventType{script.EventValue}}}, ""},
	} {
		for _, size := range []int{1, 2, 3, 5, 100} {
			c.req.By, c.req.PageSize = everybody, size
			if got := texts(b.list(c.req)); got != c.want {
				t.Errorf("%s, pages of %d: %q, want %q", what, size, got, c.want)
			}
		}
	}
	all := b.list(timeline.Request{By: everybody})
	ids := map[string]bool{}
	for _, e := range all {
		ids[e.ID] = true
	}
	if len(ids) != 11 {
		t.Errorf("%d ids of 11 events: %v", len(ids), ids)
	}
	got, want := b.list(timeline.Request{By: everybody, Filter: timeline.Filter{Tenant: "acme", Script: "route"}})[0], all[1]
	if fmt.Sprint(got) != fmt.Sprint(want) || got.Author != "ann via ci" || got.Type != script.EventRollout || got.What != "abort" || got.Version != 3 {
		t.Errorf("from the history: %+v; from the audit trail: %+v", got, want)
	}
}

// TestListOfAScriptReadsNothingOfOthers: it costs the same among many scripts.
func TestListOfAScriptReadsNothingOfOthers(t *testing.T) {
	b := newBench(t)
	for i := range 2000 {
		b.write(named("acme", fmt.Sprint("s", i)), script.ChangePublish, "x")
	}
	b.write(named("acme", "route"), script.ChangePublish, "1")
	if got := texts(b.list(timeline.Request{By: everybody, Filter: timeline.Filter{Tenant: "acme", Script: "route"}})); got != "1" {
		t.Errorf("got %q", got)
	}
	if b.store.pages != 0 {
		t.Errorf("%d pages of the audit trail were read", b.store.pages)
	}
	b.list(timeline.Request{By: everybody, Filter: timeline.Filter{Types: []script.EventType{script.EventAgent}}})
	if b.store.pages != 0 {
		t.Errorf("for events of agents, %d pages of the audit trail were read", b.store.pages)
	}
}

// TestAccess: events of a tenant need the role read for it, and those of the fleet that for all tenants.
// Nobody but an administrator of all hears which tenants a freeze leaves out.
func TestAccess(t *testing.T) {
	b := newBench(t)
	b.some()
	b.follow()
	identity := func(role access.Role, globs ...string) access.Identity {
		tenants, err := script.ParseSelector(globs)
		if err != nil {
			t.Fatal(err)
		}
		return access.Identity{Name: "someone", Grants: []access.Grant{{Roles: []access.Role{role}, Tenants: tenants}}}
	}
	for what, c := range map[string]struct {
		by     access.Identity
		filter timeline.Filter
		want   string // "" is refused
	}{
		"the fleet, of one tenant":   {identity(access.Admin, "acme"), timeline.Filter{}, ""},
		"the fleet, of all":          {identity(access.Read, "*"), timeline.Filter{}, "1 2 3 4 5 6 7 8 9 10 11"},
		"the own tenant":             {identity(access.Read, "acme"), timeline.Filter{Tenant: "acme"}, "1 4 6 7 9 10"},
		"an administrator of it":     {identity(access.Admin, "acme"), timeline.Filter{Tenant: "acme"}, "1 4 6 7 9 10"},
		"another tenant":             {identity(access.Admin, "acme"), timeline.Filter{Tenant: "shop"}, ""},
		"a script of another tenant": {identity(access.Admin, "acme"), timeline.Filter{Tenant: "shop", Script: "cart"}, ""},
		"an own script":              {identity(access.Read, "acme"), timeline.Filter{Tenant: "acme", Script: "route"}, "1 4 6 10"},
		"nobody":                     {access.Identity{Name: "nobody"}, timeline.Filter{Tenant: "acme"}, ""},
		"an administrator of all":    {everybody, timeline.Filter{Tenant: "nobody"}, "9 [until then, except shop/cart]"},
	} {
		result, err := b.List(t.Context(), timeline.Request{By: c.by, Filter: c.filter})
		if got := texts(result.Events); got != c.want || (script.KindOf(err) == script.Denied) != (c.want == "") {
			t.Errorf("%s: %q, %v; want %q", what, got, err, c.want)
		}
		var watched []script.Event
		for update, err := range b.Watch(t.Context(), timeline.WatchRequest{By: c.by, Filter: c.filter, Token: "0"}) {
			if (script.KindOf(err) == script.Denied) != (c.want == "") {
				t.Errorf("%s: the watch ends in %v", what, err)
			}
			watched = append(watched, update.Events...)
			if err != nil || len(watched) >= len(strings.Fields(c.want)) || strings.HasPrefix(texts(watched), "9 [") {
				break
			}
		}
		slices.Reverse(watched)
		if got := texts(watched); got != c.want {
			t.Errorf("%s: watched %q, want %q", what, got, c.want)
		}
	}
}

// TestBadRequests name the field.
func TestBadRequests(t *testing.T) {
	b := newBench(t)
	for field, req := range map[string]timeline.Request{
		"page_size":  {PageSize: -1},
		"page_token": {PageToken: "!"},
		"tenant":     {Filter: timeline.Filter{Tenant: "A"}},
		"name":       {Filter: timeline.Filter{Tenant: "acme", Script: "A"}},
		"types":      {Filter: timeline.Filter{Types: []script.EventType{"agents"}}},
	} {
		req.By = everybody
		_, err := b.List(t.Context(), req)
		if e := script.AsError(err); e == nil || e.Kind != script.Invalid || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	many := slices.Repeat([]script.EventType{script.EventAgent}, 1000)
	if _, err := b.List(t.Context(), timeline.Request{By: everybody, Filter: timeline.Filter{Types: many}}); script.KindOf(err) != script.Invalid {
		t.Errorf("many types: %v", err)
	}
	for _, err := range b.Watch(t.Context(), timeline.WatchRequest{By: everybody, Token: "x"}) {
		if e := script.AsError(err); e == nil || e.Kind != script.Invalid || e.Field != "token" {
			t.Errorf("a bad token: %v", err)
		}
	}
	for _, token := range []string{"AAAA", "e30", strings.Repeat("A", 1<<20)} { // no error is a page, too
		if _, err := b.List(t.Context(), timeline.Request{By: everybody, PageToken: token}); err != nil && script.AsError(err).Field != "page_token" {
			t.Errorf("the token %.10s: %v", token, err)
		}
	}
}

// slow is a store whose audit trail takes a second to read.
type slow struct {
	*counted
	reading, most atomic.Int32
}

func (s *slow) Writes(ctx context.Context, q timeline.Query[script.AuditEntry]) (timeline.Page[script.AuditEntry], error) {
	s.most.Store(max(s.most.Load(), s.reading.Add(1)))
	defer s.reading.Add(-1)
	<-time.After(time.Second)
	return s.counted.Writes(ctx, q)
}

// TestSearchesTakeTurns: who searches all the time does not load the store, and holds up itself more than others.
func TestSearchesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{counted: &counted{Store: memstore.New()}}
		line := timeline.New(store, timeline.NewHub(store, quiet()))
		ctx, cancel := context.WithCancel(t.Context())
		search := func(ctx context.Context, subject string) error {
			by := everybody
			by.Subject = subject
			_, err := line.List(ctx, timeline.Request{By: by, Filter: timeline.Filter{Tenant: "acme"}})
			return err
		}
		var running sync.WaitGroup
		for range 100 {
			running.Go(func() {
				for ctx.Err() == nil {
					if err := search(ctx, "greedy"); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
			})
		}
		<-time.After(time.Minute)
		began := time.Now()
		if err := search(ctx, "modest"); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("another caller waits for %v", took)
		}
		bounded, end := context.WithTimeout(ctx, time.Second/2)
		defer end()
		if err := search(bounded, "greedy"); script.KindOf(err) != script.Unavailable {
			t.Errorf("one that gives up: %v", err)
		}
		cancel()
		running.Wait()
		if most := store.most.Load(); most > 2 {
			t.Errorf("%d searches at a time", most)
		}
		if store.pages > 70*2/4+2 {
			t.Errorf("%d searches in a minute", store.pages)
		}
	})
}
