package host

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/agent/logring"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bytes of a line besides its names and its message. JSON is the longer of the formats that
// the agent can log in.
const (
	plainBytes = len(`{"time":"2006-01-02T15:04:05.999999999+00:00","level":"ERROR","msg":"a script says","agent":"","tenant":"","script":"","version":,"text":""}` + "\n")
	traceBytes = len(`,"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736"`)
)

// cost returns how many bytes the agent's log may need for the line.
func (h *Host) cost(inv *engine.Invocation, message string) int {
	var digits [20]byte
	n := plainBytes + h.nameBytes + quotedBytes(inv.Tenant) + quotedBytes(inv.Script) +
		len(strconv.AppendUint(digits[:0], inv.Version, 10)) + quotedBytes(message)
	if traceID(inv.Traceparent) != "" {
		n += traceBytes
	}
	return n
}

// quotedBytes returns how many bytes s needs in quotes, in the longer of both formats.
func quotedBytes(s string) int {
	n := 0
	for i, r := range s {
		switch {
		case r == '"' || r == '\\' || r == '\n' || r == '\r' || r == '\t':
			n += 2
		case r >= ' ' && r < 0x7f:
			n++
		case r < utf8.RuneSelf:
			n += len(`\u001b`)
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd"):
			n += len(`\ufffd`)
		case strconv.IsPrint(r):
			n += utf8.RuneLen(r)
		default:
			n += len(`\U000e0001`)
		}
	}
	return n
}

// source is one script as a source of lines. The tenant's mu guards it.
type source struct {
	name    string
	bucket  bucket
	dropped uint64 // since that was last said
}

// Log is engine.Host's.
func (h *Host) Log(inv *engine.Invocation, level engine.Level, message string) {
	now := time.Now()
	if !h.admit(inv, now, float64(h.cost(inv, message))) {
		h.metrics.dropped.Inc()
		h.tails.drop(now, inv.Tenant, inv.Script)
		return
	}
	h.metrics.lines.Inc()
	h.write(inv, level, message)
	if h.cfg.Keep != nil {
		h.cfg.Keep(script.Name{Tenant: inv.Tenant, Script: inv.Script}, logring.Line{
			Time: now, Version: inv.Version, Level: level, Message: message, TraceID: traceID(inv.Traceparent),
		})
	}
	if h.tails.wants(now, inv.Tenant, inv.Script) {
		h.tails.put(line{
			time: now, tenant: inv.Tenant, name: inv.Script, version: inv.Version,
			level: level, message: strings.Clone(message), traceID: strings.Clone(traceID(inv.Traceparent)),
		})
	}
}

// admit takes what a line costs from what the script and its tenant may log. A line that
// is longer than a second's worth passes after a second of silence. The next one then waits
// until the rate allows both.
func (h *Host) admit(inv *engine.Invocation, now time.Time, cost float64) bool {
	ofScript := inv.Limits.LogBytes
	if ofScript == 0 {
		ofScript = script.DefaultLimits().LogBytes
	}
	ofTenant := h.cfg.Tenants(inv.Tenant).OrDefaults().LogBytes

	t := h.lock(inv.Tenant)
	defer t.mu.Unlock()
	s := t.scripts[inv.Script]
	if s == nil {
		s = &source{name: strings.Clone(inv.Script)}
		t.scripts[s.name] = s
	}
	s.bucket.fill(now, float64(ofScript), float64(ofScript))
	t.logs.fill(now, float64(ofTenant), float64(ofTenant))
	if s.bucket.tokens >= min(cost, float64(ofScript)) && t.logs.tokens >= min(cost, float64(ofTenant)) {
		s.bucket.tokens -= cost
		t.logs.tokens -= cost
		return true
	}
	if s.dropped++; s.dropped > 1 {
		return false
	}
	if t.noisy = append(t.noisy, s); len(t.noisy) == 1 {
		h.noisyMu.Lock()
		h.noisy = append(h.noisy, t)
		h.noisyMu.Unlock()
	}
	return false
}

// LineMessage is the message of the agent's log that has a line of a script, and LineText the attribute
// with what the script says.
const (
	LineMessage = "a script says"
	LineText    = "text"
)

// write writes a line to the agent's log. What the script says is a value there, so that
// nobody takes it for what the agent says.
func (h *Host) write(inv *engine.Invocation, level engine.Level, message string) {
	at := slog.LevelInfo
	switch level {
	case engine.Warn:
		at = slog.LevelWarn
	case engine.Error:
		at = slog.LevelError
	}
	ctx := context.Background() // a line outlives its call
	if !h.log.Enabled(ctx, at) {
		return
	}
	attrs := []slog.Attr{
		slog.String("tenant", inv.Tenant), slog.String("script", inv.Script), slog.Uint64("version", inv.Version),
		slog.String(LineText, message),
	}
	if id := traceID(inv.Traceparent); id != "" {
		attrs = append(attrs, slog.String("trace_id", id))
	}
	h.log.LogAttrs(ctx, at, LineMessage, attrs...)
}

// maxNamed is how many noisy scripts a warning names.
const maxNamed = 3

// sayDropped says how many lines of each tenant were left out. It says so once for each
// tenant: no rate bounds these lines.
func (h *Host) sayDropped() {
	h.noisyMu.Lock()
	noisy := h.noisy
	h.noisy = nil
	h.noisyMu.Unlock()
	for _, t := range noisy {
		t.mu.Lock() // it stays while lines were dropped
		scripts := t.noisy
		t.noisy = nil
		var lines uint64
		var names []string
		dropped := make(map[string]uint64, len(scripts))
		for _, s := range scripts {
			lines += s.dropped
			dropped[s.name] = s.dropped
			s.dropped = 0
			if len(names) < maxNamed {
				names = append(names, s.name)
			}
		}
		t.mu.Unlock()
		if h.cfg.Dropped != nil {
			for name, lines := range dropped {
				h.cfg.Dropped(script.Name{Tenant: t.name, Script: name}, lines)
			}
		}
		h.log.Warn("scripts log more than they or their tenant may; lines were left out",
			"tenant", t.name, "lines", lines, "scripts", len(scripts), "first", names)
	}
}

// forgetQuiet forgets scripts whose buckets are full again: they may be gone. t.mu is held.
func (t *tenant) forgetQuiet(now time.Time) {
	for name, s := range t.scripts {
		if s.dropped == 0 && s.bucket.isFull(now) {
			delete(t.scripts, name)
		}
	}
}

// traceID returns the trace id in a W3C traceparent; "" if it has none that is valid.
func traceID(traceparent string) string {
	id, _ := tracecontext.IDs(traceparent)
	return id
}
