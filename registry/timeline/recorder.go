package timeline

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of what a Recorder stores. Each type of event has its own rate limit: recordBurst records at once, then
// recordRate per second. A record has less than 4 KiB.
const (
	recordBurst  = 64
	recordRate   = 0.25
	maxTextBytes = 1 << 10
	maxSubject   = 253
	// maxGroups is the number of groups of one type in memory. Notes of further groups are merged.
	maxGroups = 128
	// storeTimeout is for one write, lastTimeout for the writes at shutdown.
	storeTimeout = 5 * time.Second
	lastTimeout  = time.Second
	flushEvery   = 500 * time.Millisecond
)

// pauses are the times for which notes of one group are collected into a record. They grow while notes keep coming, so
// that the first notes are stored soon and a flood costs few records.
var pauses = []time.Duration{2 * time.Second, 10 * time.Second, time.Minute, 5 * time.Minute}

// Note is something that happened other than a write.
type Note struct {
	Type    script.EventType
	What    string
	Tenant  string // "" for the fleet
	Subject string // what it happened to, such as an agent; may be ""
	About   string // part of the group: notes with different About are not counted together
	Text    string // details; a record has the text of its last note
}

// Config of a Recorder.
type Config struct {
	Store Store
	// Clock returns the time of events; time.Now if nil.
	Clock func() time.Time
	Log   *slog.Logger
}

// Recorder stores notes as records. It counts notes of one group together, so that a flood of notes costs a bounded
// number of writes. It is safe for concurrent use.
type Recorder struct {
	cfg Config

	mu     sync.Mutex
	groups map[group]*pending
	types  map[script.EventType]*limit
	stats  Stats
}

// limit is the rate limit of one type of event.
type limit struct {
	groups int
	budget float64 // records that can be stored at the time
	at     time.Time
}

// group identifies notes that are counted together.
type group struct {
	kind          script.EventType
	what          string
	tenant, about string
}

// pending is what happened since the last record of the group.
type pending struct {
	count       uint64
	first, last time.Time
	subjects    []string
	text        string
	due         time.Time // when the next record is stored
	step        int       // index of pauses
}

// Stats counts notes and records by their types.
type Stats struct {
	Notes   map[script.EventType]uint64
	Records map[script.EventType]uint64
	// Merged are notes that were counted with those of other tenants, because there were too many groups.
	Merged map[script.EventType]uint64
	// Dropped are notes that were not stored before the registry stopped.
	Dropped map[script.EventType]uint64
}

// NewRecorder returns a recorder that stores nothing until it runs.
func NewRecorder(cfg Config) *Recorder {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	return &Recorder{
		cfg: cfg, groups: map[group]*pending{}, types: map[script.EventType]*limit{},
		stats: Stats{map[script.EventType]uint64{}, map[script.EventType]uint64{}, map[script.EventType]uint64{}, map[script.EventType]uint64{}},
	}
}

// Note counts a note. It does not block. Memory grows with the number of groups, not of notes.
func (r *Recorder) Note(n Note) {
	now := r.cfg.Clock().UTC()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Notes[n.Type]++
	g := group{n.Type, n.What, n.Tenant, n.About}
	p := r.groups[g]
	if p == nil && r.limitOf(n.Type).groups >= maxGroups {
		r.stats.Merged[n.Type]++
		g, n.Text = group{kind: n.Type, what: n.What}, ""
		n.Subject = cmp.Or(n.Tenant, n.Subject)
		p = r.groups[g]
	}
	if p == nil {
		p = &pending{due: time.Now().Add(pauses[0])}
		r.groups[g] = p
		r.limitOf(n.Type).groups++
	}
	if p.count == 0 {
		p.first = now
	}
	p.count, p.last = p.count+1, now
	p.text = registry.Printable(n.Text, maxTextBytes)
	if n.Subject != "" && len(p.subjects) < script.MaxEventSubjects && !slices.Contains(p.subjects, n.Subject) {
		p.subjects = append(p.subjects, registry.Printable(n.Subject, maxSubject))
	}
}

// limitOf returns the limit of the type. r.mu is held.
func (r *Recorder) limitOf(t script.EventType) *limit {
	l := r.types[t]
	if l == nil {
		l = &limit{budget: recordBurst, at: time.Now()}
		r.types[t] = l
	}
	return l
}

// Put stores a record at once, without a rate limit. It is for rare events.
func (r *Recorder) Put(ctx context.Context, record Record) error {
	record.Time = r.cfg.Clock().UTC()
	record.Text = registry.Printable(record.Text, maxTextBytes)
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := r.cfg.Store.PutRecords(bounded, []Record{record}); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Notes[record.Type]++
	r.stats.Records[record.Type]++
	return nil
}

// Run stores records of notes until ctx is done, and then those of the last notes.
func (r *Recorder) Run(ctx context.Context) {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	var failed time.Duration // the pause after an error
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			continue
		}
		if err := r.flush(ctx, false); err != nil && ctx.Err() == nil {
			failed = min(max(2*failed, time.Second), time.Minute)
			r.cfg.Log.Warn("events of the timeline are not stored yet; they are counted together meanwhile", "error", err, "pause", failed)
			select {
			case <-time.After(failed):
			case <-ctx.Done():
			}
			continue
		}
		failed = 0
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	if err := r.flush(last, true); err != nil {
		r.drop()
		r.cfg.Log.Warn("the last events of the timeline are not stored", "error", err)
	}
}

// flush stores the records that are due, or all of them.
func (r *Recorder) flush(ctx context.Context, all bool) error {
	for {
		taken, records := r.take(all)
		if len(records) == 0 {
			return nil
		}
		bounded, cancel := context.WithTimeout(ctx, storeTimeout)
		err := r.cfg.Store.PutRecords(bounded, records)
		cancel()
		r.settle(taken, records, err)
		if err != nil || !all {
			return err
		}
	}
}

// taken is the content of a record.
type taken struct {
	group
	pending
}

// take returns the records to store now: for each type those that wait for longest, within the limit.
func (r *Recorder) take(all bool) (list []taken, records []Record) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for g, p := range r.groups {
		switch {
		case p.due.After(now) && !all:
		case p.count > 0:
			list = append(list, taken{g, *p})
		default: // no note since the last record
			r.remove(g)
		}
	}
	slices.SortFunc(list, func(a, b taken) int { return a.due.Compare(b.due) })
	room := MaxBatch
	list = slices.DeleteFunc(list, func(t taken) bool {
		if room == 0 || !all && !r.limitOf(t.kind).spend(now) {
			return true
		}
		room--
		return false
	})
	for i := range list {
		if all {
			r.remove(list[i].group)
		} else {
			p := r.groups[list[i].group]
			step := min(p.step+1, len(pauses)-1)
			*p = pending{step: step, due: now.Add(pauses[step])}
		}
		records = append(records, list[i].record())
	}
	return list, records
}

func (r *Recorder) remove(g group) {
	delete(r.groups, g)
	r.limitOf(g.kind).groups--
}

// spend takes one record from the budget, and reports whether there was one.
func (l *limit) spend(now time.Time) bool {
	l.budget = min(recordBurst, l.budget+max(0, now.Sub(l.at).Seconds())*recordRate)
	l.at = now
	if l.budget < 1 {
		return false
	}
	l.budget--
	return true
}

// settle counts the records as stored, or puts back the notes that they are made of.
func (r *Recorder) settle(list []taken, records []Record, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range list {
		if err == nil {
			r.stats.Records[records[i].Type]++
			continue
		}
		before := list[i].pending
		p := r.groups[list[i].group]
		if p == nil {
			r.groups[list[i].group] = &before
			r.limitOf(list[i].kind).groups++
			continue
		}
		if p.count == 0 {
			p.last, p.text = before.last, before.text
		}
		p.first, p.count, p.due = before.first, p.count+before.count, before.due
		for _, s := range p.subjects {
			if len(before.subjects) < script.MaxEventSubjects && !slices.Contains(before.subjects, s) {
				before.subjects = append(before.subjects, s)
			}
		}
		p.subjects = before.subjects
	}
}

// drop counts the notes that were not stored.
func (r *Recorder) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for g, p := range r.groups {
		r.stats.Dropped[g.kind] += p.count
		r.remove(g)
	}
}

// record returns the record to store.
func (t *taken) record() Record {
	e := script.Event{
		Time: t.last, Type: t.kind, What: t.what, Tenant: t.tenant, Text: t.text, Subjects: t.subjects,
	}
	if t.count > 1 {
		e.Count, e.Since = t.count, t.first
	}
	return Record{Event: e}
}

// Stats returns the counts since the start.
func (r *Recorder) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Stats{maps.Clone(r.stats.Notes), maps.Clone(r.stats.Records), maps.Clone(r.stats.Merged), maps.Clone(r.stats.Dropped)}
}
