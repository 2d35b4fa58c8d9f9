package enginetest

import (
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Host is an engine.Host for tests. It remembers the lines that were logged; its
// buckets are never filled again. The zero Host is ready, and safe for concurrent use.
type Host struct {
	// Values are the contents by tenant and key. They are not changed while the host
	// is used.
	Values map[string]map[string]string
	// MaxCounters of a tenant; 0 means that there is no bound.
	MaxCounters int

	mu       sync.Mutex
	lines    []Line
	counters map[string]map[string]float64
	buckets  map[[2]string]float64
}

// Line is one that was logged.
type Line struct {
	Tenant, Script string
	Version        uint64
	Traceparent    string
	Level          engine.Level
	Message        string
}

var _ engine.Host = (*Host)(nil)

// Lines returns what was logged since they were last asked for.
func (h *Host) Lines() []Line {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := h.lines
	h.lines = nil
	return lines
}

// Log is engine.Host's.
func (h *Host) Log(inv *engine.Invocation, level engine.Level, message string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, Line{
		Tenant: inv.Tenant, Script: inv.Script, Version: inv.Version, Traceparent: inv.Traceparent,
		Level: level, Message: strings.Clone(message),
	})
}

// Value is engine.Host's. A key that begins with "unavailable/" cannot be read.
func (h *Host) Value(tenant, key string) ([]byte, bool, error) {
	if strings.HasPrefix(key, "unavailable/") {
		return nil, false, script.Errorf(script.Unavailable, "", "the registry cannot be reached")
	}
	content, ok := h.Values[tenant][key]
	return []byte(content), ok, nil
}

// Keys is engine.Host's.
func (h *Host) Keys(tenant, prefix, after string, limit int) []string {
	var keys []string
	for key := range h.Values[tenant] {
		if strings.HasPrefix(key, prefix) && key > after {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys[:min(len(keys), limit)]
}

// Count is engine.Host's.
func (h *Host) Count(tenant, counter string, n float64) (float64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.counters[tenant]
	if _, ok := known[counter]; !ok && n != 0 && h.MaxCounters > 0 && len(known) >= h.MaxCounters {
		return 0, script.Errorf(script.Limit, "counter", "tenant %s has %d counters", tenant, h.MaxCounters)
	}
	if n == 0 {
		return known[counter], nil
	}
	if h.counters == nil {
		h.counters = map[string]map[string]float64{}
	}
	if known == nil {
		known = map[string]float64{}
		h.counters[tenant] = known
	}
	known[counter] += n
	return known[counter], nil
}

// Take is engine.Host's.
func (h *Host) Take(tenant, bucket string, n, rate, burst float64) (bool, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.buckets == nil {
		h.buckets = map[[2]string]float64{}
	}
	key := [2]string{tenant, bucket}
	tokens, ok := h.buckets[key]
	if !ok {
		tokens = burst
	}
	if tokens < n {
		return false, time.Duration(math.Ceil((n - tokens) / rate * float64(time.Second)))
	}
	h.buckets[key] = tokens - n
	return true, 0
}
