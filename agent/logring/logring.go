// Package logring keeps the lines that scripts logged lately, so that somebody who looks later can
// still read them. Its memory is bounded for each script, for each tenant and for all tenants. When
// there is no room, the tenant that has the most lines loses its oldest ones.
package logring

import (
	"container/heap"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of what is kept.
const (
	// DefaultBytes of all lines.
	DefaultBytes = 16 << 20

	tenantShare = 4       // a tenant has at most this part of all bytes
	scriptShare = 4       // a script has at most this part of its tenant's bytes
	maxMessage  = 4 << 10 // bytes; more is cut
	lineBytes   = 192     // of a line besides its message
	scriptBytes = 512     // of a script or a tenant besides its lines
	// MaxAge is how long a line is kept at most.
	MaxAge = 24 * time.Hour
)

// Line is a line that a script has logged.
type Line struct {
	Time    time.Time
	Version uint64
	Level   engine.Level
	Message string
	TraceID string
}

func (l *Line) size() int { return lineBytes + len(l.Message) + len(l.TraceID) }

// Ring keeps lines. It is safe for concurrent use.
type Ring struct {
	most int // bytes

	mu      sync.Mutex
	bytes   int
	tenants map[string]*tenant
	largest queue[*tenant]
}

// tenant is what is kept of one tenant.
type tenant struct {
	place
	name    string
	scripts map[string]*lines
	largest queue[*lines]
}

// lines are those of one script.
type lines struct {
	place
	name  string
	all   []Line
	first int       // of all, that is still kept
	lost  time.Time // of the newest line that made room for others
}

// New returns a ring of so many bytes; DefaultBytes if 0.
func New(bytes int) *Ring {
	if bytes == 0 {
		bytes = DefaultBytes
	}
	return &Ring{most: bytes, tenants: map[string]*tenant{}}
}

// Add keeps a line. It copies the texts.
func (r *Ring) Add(of script.Name, l Line) {
	if len(l.Message) > maxMessage {
		l.Message = strings.ToValidUTF8(l.Message[:maxMessage], "") + "…"
	}
	l.Message, l.TraceID = strings.Clone(l.Message), strings.Clone(l.TraceID)
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tenants[of.Tenant]
	if t == nil {
		t = &tenant{name: strings.Clone(of.Tenant), scripts: map[string]*lines{}}
		r.tenants[t.name] = t
		heap.Push(&r.largest, t)
		r.grow(t, nil, scriptBytes)
	}
	s := t.scripts[of.Script]
	if s == nil {
		s = &lines{name: strings.Clone(of.Script)}
		t.scripts[s.name] = s
		heap.Push(&t.largest, s)
		r.grow(t, s, scriptBytes)
	}
	s.all = append(s.all, l)
	r.grow(t, s, l.size())
	ofTenant := r.most / tenantShare
	for s.bytes > ofTenant/scriptShare && s.len() > 1 {
		r.dropFirst(t, s)
	}
	for t.bytes > ofTenant && (t.len() > 1 || s.len() > 1) {
		r.dropFirst(t, t.largest[0])
	}
	for r.bytes > r.most {
		big := r.largest[0]
		r.dropFirst(big, big.largest[0])
	}
}

func (t *tenant) len() int { return len(t.scripts) }

func (s *lines) len() int { return len(s.all) - s.first }

// grow counts bytes of the script and its tenant; of the tenant alone if s is nil. mu is held.
func (r *Ring) grow(t *tenant, s *lines, bytes int) {
	r.bytes += bytes
	t.bytes += bytes
	heap.Fix(&r.largest, t.at)
	if s != nil {
		s.bytes += bytes
		heap.Fix(&t.largest, s.at)
	}
}

// dropFirst drops the oldest line of the script, and the script with its last line. mu is held.
func (r *Ring) dropFirst(t *tenant, s *lines) {
	l := s.all[s.first]
	s.all[s.first], s.lost = Line{}, l.Time
	if s.first++; s.first > len(s.all)/2 { // what is copied was dropped before
		s.all = append(make([]Line, 0, s.len()+s.len()/2+1), s.all[s.first:]...)
		s.first = 0
	}
	r.grow(t, s, -l.size())
	if s.len() > 0 {
		return
	}
	r.grow(t, s, -scriptBytes)
	heap.Remove(&t.largest, s.at)
	delete(t.scripts, s.name)
	if len(t.scripts) > 0 {
		return
	}
	r.grow(t, nil, -scriptBytes)
	heap.Remove(&r.largest, t.at)
	delete(r.tenants, t.name)
}

// Run drops old lines until ctx is done.
func (r *Ring) Run(ctx context.Context) error {
	ticker := time.NewTicker(forgetEvery)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			r.Forget(now)
		case <-ctx.Done():
			return nil
		}
	}
}

// forgetEvery is how often Run looks for old lines.
const forgetEvery = time.Minute

// Forget drops what is older than MaxAge.
func (r *Ring) Forget(now time.Time) {
	for _, name := range r.names() {
		r.mu.Lock()
		if t := r.tenants[name]; t != nil {
			for _, s := range t.scripts {
				for s.len() > 0 && now.Sub(s.all[s.first].Time) > MaxAge {
					r.dropFirst(t, s)
				}
			}
		}
		r.mu.Unlock()
	}
}

func (r *Ring) names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make([]string, 0, len(r.tenants))
	for name := range r.tenants {
		names = append(names, name)
	}
	return names
}

// Kept are the lines of one script, in order.
type Kept struct {
	Script script.Name
	Lines  []Line
	// Lost is the time of the newest line that made room for others; zero if there is none.
	Lost time.Time
}

// Of returns what is kept of the script, or of all scripts of the tenant if the name has no Script. The
// lines are copies.
func (r *Ring) Of(of script.Name) (all []Kept) {
	for _, name := range r.scripts(of) {
		r.mu.Lock()
		if t := r.tenants[of.Tenant]; t != nil {
			if s := t.scripts[name]; s != nil {
				all = append(all, Kept{Script: script.Name{Tenant: of.Tenant, Script: name}, Lines: append([]Line(nil), s.all[s.first:]...), Lost: s.lost})
			}
		}
		r.mu.Unlock()
	}
	return all
}

func (r *Ring) scripts(of script.Name) []string {
	if of.Script != "" {
		return []string{of.Script}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tenants[of.Tenant]
	if t == nil {
		return nil
	}
	names := make([]string, 0, len(t.scripts))
	for name := range t.scripts {
		names = append(names, name)
	}
	return names
}

// Bytes returns what the lines take, about.
func (r *Ring) Bytes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}
