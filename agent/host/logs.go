package host

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// lineOverhead is what a line counts for besides its text: it is written with a time and
// with what it is of.
const lineOverhead = 32

// source is one script as a source of lines.
type source struct {
	tenant, name string

	// Guarded by the tenant's mu.
	bucket  bucket
	dropped uint64 // since that was last said
}

// Log is engine.Host's.
func (h *Host) Log(inv *engine.Invocation, level engine.Level, message string) {
	now := time.Now()
	if !h.admit(inv, now, len(message)+lineOverhead) {
		h.metrics.dropped.Inc()
		h.tails.drop(now, inv.Tenant, inv.Script)
		return
	}
	h.metrics.lines.Inc()
	h.write(inv, level, message)
	if h.tails.wants(now, inv.Tenant, inv.Script) {
		h.tails.put(line{
			time: now, tenant: inv.Tenant, name: inv.Script, version: inv.Version,
			level: level, message: strings.Clone(message), traceID: strings.Clone(traceID(inv.Traceparent)),
		})
	}
}

// admit takes what a line costs from what the script and its tenant may log.
func (h *Host) admit(inv *engine.Invocation, now time.Time, cost int) bool {
	ofScript := inv.Limits.LogBytes
	if ofScript == 0 {
		ofScript = script.DefaultLimits().LogBytes
	}
	ofTenant := h.cfg.Tenants(inv.Tenant).OrDefaults().LogBytes
	cost = min(cost, ofScript, ofTenant) // a longer line passes when nothing else does

	t := h.lock(inv.Tenant)
	defer t.mu.Unlock()
	s := t.scripts[inv.Script]
	if s == nil {
		s = &source{tenant: t.name, name: strings.Clone(inv.Script)}
		t.scripts[s.name] = s
	}
	s.bucket.fill(now, float64(ofScript), float64(ofScript))
	t.logs.fill(now, float64(ofTenant), float64(ofTenant))
	if n := float64(cost); s.bucket.tokens >= n && t.logs.tokens >= n {
		s.bucket.tokens -= n
		t.logs.tokens -= n
		return true
	}
	if s.dropped++; s.dropped == 1 {
		h.noisyMu.Lock()
		h.noisy = append(h.noisy, s)
		h.noisyMu.Unlock()
	}
	return false
}

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
		slog.String("text", message),
	}
	if id := traceID(inv.Traceparent); id != "" {
		attrs = append(attrs, slog.String("trace_id", id))
	}
	h.log.LogAttrs(ctx, at, "a script says", attrs...)
}

// sayDropped says of which scripts lines were left out.
func (h *Host) sayDropped() {
	h.noisyMu.Lock()
	noisy := h.noisy
	h.noisy = nil
	h.noisyMu.Unlock()
	for _, s := range noisy {
		t := h.lock(s.tenant) // the one that s is of: it stays while lines were dropped
		dropped := s.dropped
		s.dropped = 0
		t.mu.Unlock()
		h.log.Warn("a script logs more than it or its tenant may; lines were left out",
			"tenant", s.tenant, "script", s.name, "lines", dropped)
	}
}

// quiet is after how long without a line every bucket of lines is full.
const quiet = time.Minute

// forgetQuiet forgets scripts that have logged nothing for a while: they may be gone.
// t.mu is held.
func (t *tenant) forgetQuiet(now time.Time) {
	for name, s := range t.scripts {
		if s.dropped == 0 && now.Sub(s.bucket.at) > quiet {
			delete(t.scripts, name)
		}
	}
}

// traceID returns the trace id in a W3C traceparent; "" if it has none that is valid.
func traceID(traceparent string) string {
	const version, id, rest = len("00-"), 32, len("-0123456789abcdef-01")
	if len(traceparent) < version+id+rest || traceparent[2] != '-' || traceparent[version+id] != '-' {
		return ""
	}
	found := traceparent[version : version+id]
	if strings.Trim(found, "0") == "" || strings.Trim(found, "0123456789abcdef") != "" {
		return ""
	}
	return found
}
