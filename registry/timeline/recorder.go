package timeline

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of what a Recorder stores, whatever happens: of each type recordBurst records at first, and then
// recordRate a second, of less than 4 KiB each. A flood of one type does not hold up others.
const (
	recordBurst  = 64
	recordRate   = 0.25
	maxTextBytes = 1 << 10
	maxSubject   = 253
	// maxGroups of notes of a type are told apart at a time, and merged ones besides.
	maxGroups = 128
	// storeTimeout bounds one write, and lastTimeout those at the end.
	storeTimeout = 5 * time.Second
	lastTimeout  = time.Second
	flushEvery   = 500 * time.Millisecond
)

// pauses are how long notes of one group are gathered into a record, while they go on: the first are told
// soon, and those of a flood seldom.
var pauses = []time.Duration{2 * time.Second, 10 * time.Second, time.Minute, 5 * time.Minute}

// Note is something that happened, and is no write.
type Note struct {
	Type    script.EventType
	What    string
	Tenant  string // "" if it concerns the fleet
	Subject string // to what it happened, such as an agent; "" if to nothing in particular
	About   string // tells groups apart: notes that differ in it are not counted together
	Text    string // details; of several notes, those of the last
}

// Config of a Recorder.
type Config struct {
	Store Store
	// Clock tells the time of events; time.Now if nil.
	Clock func() time.Time
	Log   *slog.Logger
}

// Recorder stores notes as records. It counts notes of one group together, so that a flood of them costs
// a bounded number of writes. It is safe for concurrent use.
type Recorder struct {
	cfg Config

	mu     sync.Mutex
	groups map[group]*gathered
	types  map[script.EventType]*typed
	stats  Stats
}

// typed bounds the records of one type.
type typed struct {
	groups int
	budget float64 // records that can be stored now
	at     time.Time
}

// group is of notes that are counted together.
type group struct {
	of            script.EventType
	what          string
	tenant, about string
}

// gathered is what happened since the last record of the group.
type gathered struct {
	count       uint64
	first, last time.Time
	subjects    []string
	text        string
	due         time.Time // the next record
	step        int       // of pauses
}

// Stats counts notes and records by their types.
type Stats struct {
	Notes   map[script.EventType]uint64
	Records map[script.EventType]uint64
	// Merged are notes of groups that were too many: they are counted with those of other tenants.
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
		cfg: cfg, groups: map[group]*gathered{}, types: map[script.EventType]*typed{},
		stats: Stats{map[script.EventType]uint64{}, map[script.EventType]uint64{}, map[script.EventType]uint64{}, map[script.EventType]uint64{}},
	}
}

// Note takes in a note. It does not block, and takes no memory for each note.
func (r *Recorder) Note(n Note) {
	now := r.cfg.Clock().UTC()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Notes[n.Type]++
	of := group{n.Type, n.What, n.Tenant, n.About}
	g := r.groups[of]
	if g == nil && r.of(n.Type).groups >= maxGroups {
		r.stats.Merged[n.Type]++
		of, n.Text = group{of: n.Type, what: n.What}, ""
		n.Subject = cmp.Or(n.Tenant, n.Subject)
		g = r.groups[of]
	}
	if g == nil {
		g = &gathered{due: time.Now().Add(pauses[0])}
		r.groups[of] = g
		r.of(n.Type).groups++
	}
	if g.count == 0 {
		g.first = now
	}
	g.count, g.last = g.count+1, now
	g.text = registry.Printable(n.Text, maxTextBytes)
	if n.Subject != "" && len(g.subjects) < script.MaxEventSubjects && !slices.Contains(g.subjects, n.Subject) {
		g.subjects = append(g.subjects, registry.Printable(n.Subject, maxSubject))
	}
}

// of returns the bounds of the type. r.mu is held.
func (r *Recorder) of(t script.EventType) *typed {
	of := r.types[t]
	if of == nil {
		of = &typed{budget: recordBurst, at: time.Now()}
		r.types[t] = of
	}
	return of
}

// Put stores a record at once, outside of the bounds: it is for what happens seldom.
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

// Run stores what was noted until ctx is done, and then what is left.
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

// flush stores the records that are due, or all.
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

// taken is what a record is made of.
type taken struct {
	group
	gathered
}

// take returns the records to store now: of each type those that have waited for longest, as far as its budget
// goes.
func (r *Recorder) take(all bool) (list []taken, records []Record) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for of, g := range r.groups {
		switch {
		case g.due.After(now) && !all:
		case g.count > 0:
			list = append(list, taken{of, *g})
		default: // nothing has happened for as long
			r.remove(of)
		}
	}
	slices.SortFunc(list, func(a, b taken) int { return a.due.Compare(b.due) })
	room := MaxBatch
	list = slices.DeleteFunc(list, func(t taken) bool {
		if room == 0 || !all && !r.of(t.of).spend(now) {
			return true
		}
		room--
		return false
	})
	for i := range list {
		if all {
			r.remove(list[i].group)
		} else {
			g := r.groups[list[i].group]
			next := gathered{step: min(g.step+1, len(pauses)-1)}
			next.due = now.Add(pauses[next.step])
			*g = next
		}
		records = append(records, list[i].record())
	}
	return list, records
}

func (r *Recorder) remove(of group) {
	delete(r.groups, of)
	r.of(of.of).groups--
}

// spend takes one record from the budget, if there is one.
func (t *typed) spend(now time.Time) bool {
	t.budget = min(recordBurst, t.budget+max(0, now.Sub(t.at).Seconds())*recordRate)
	t.at = now
	if t.budget < 1 {
		return false
	}
	t.budget--
	return true
}

// settle notes that the records are stored, or takes back what they are made of.
func (r *Recorder) settle(list []taken, records []Record, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range list {
		if err == nil {
			r.stats.Records[records[i].Type]++
			continue
		}
		before := list[i].gathered
		g := r.groups[list[i].group]
		if g == nil {
			r.groups[list[i].group] = &before
			r.of(list[i].of).groups++
			continue
		}
		if g.count == 0 {
			g.last, g.text = before.last, before.text
		}
		g.first, g.count, g.due = before.first, g.count+before.count, before.due
		for _, s := range g.subjects {
			if len(before.subjects) < script.MaxEventSubjects && !slices.Contains(before.subjects, s) {
				before.subjects = append(before.subjects, s)
			}
		}
		g.subjects = before.subjects
	}
}

// drop counts what was not stored.
func (r *Recorder) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for of, g := range r.groups {
		r.stats.Dropped[of.of] += g.count
		r.remove(of)
	}
}

// record is the record of what happened.
func (t *taken) record() Record {
	e := script.Event{
		Time: t.last, Type: t.of, What: t.what, Tenant: t.tenant, Text: t.text, Subjects: t.subjects,
	}
	if t.count > 1 {
		e.Count, e.Since = t.count, t.first
	}
	return Record{Event: e}
}

// Stats returns what was noted and stored since the start.
func (r *Recorder) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	clone := func(of map[script.EventType]uint64) map[script.EventType]uint64 {
		out := make(map[script.EventType]uint64, len(of))
		for t, n := range of {
			out[t] = n
		}
		return out
	}
	return Stats{clone(r.stats.Notes), clone(r.stats.Records), clone(r.stats.Merged), clone(r.stats.Dropped)}
}
