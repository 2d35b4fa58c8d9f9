package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// output takes what a process writes on standard error: lines of its log, which go to
// the agent's, as many as it may in a second; and, when Go gives it up, the reason.
type output struct {
	log *slog.Logger

	mu      sync.Mutex
	partial []byte
	last    []string // lines that are not of its log: the beginning of a crash
	second  time.Time
	taken   int // bytes in that second
	lost    int // lines
}

// Bounds of what is taken of a process.
const (
	maxOutputLine = 8 << 10
	maxOutput     = 64 << 10 // bytes a second
	maxLast       = 40       // lines
)

// of says whose process it is.
func (o *output) of(tenant string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log = o.log.With("tenant", tenant)
}

// Write implements io.Writer. It never fails.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(b)
	for {
		line, rest, ended := bytes.Cut(b, []byte{'\n'})
		if room := maxOutputLine - len(o.partial); len(line) > room {
			line = line[:room]
		}
		o.partial = append(o.partial, line...)
		if !ended {
			return n, nil
		}
		o.line(o.partial)
		o.partial = o.partial[:0]
		b = rest
	}
}

// line takes one line. o.mu is held.
func (o *output) line(line []byte) {
	var entry struct {
		Level slog.Level `json:"level"`
		Msg   string     `json:"msg"`
	}
	fields := map[string]any{}
	if json.Unmarshal(line, &entry) != nil || json.Unmarshal(line, &fields) != nil || entry.Msg == "" {
		if len(o.last) < maxLast { // the first lines have the reason
			o.last = append(o.last, strings.ToValidUTF8(string(line), "\uFFFD"))
		}
		return
	}
	now := time.Now()
	if now.Sub(o.second) > time.Second {
		if o.lost > 0 {
			o.log.Warn("lines of the process's log were left out", "lines", o.lost)
		}
		o.second, o.taken, o.lost = now, 0, 0
	}
	if o.taken += len(line); o.taken > maxOutput {
		o.lost++
		return
	}
	attrs := make([]slog.Attr, 0, len(fields))
	for name, value := range fields {
		if name != slog.LevelKey && name != slog.MessageKey && name != slog.TimeKey {
			attrs = append(attrs, slog.Any(name, value))
		}
	}
	o.log.LogAttrs(context.Background(), entry.Level, entry.Msg, attrs...)
}

// crash returns the first line of why Go gave the process up, and more of it; "" if it
// did not.
func (o *output) crash() (first, more string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, line := range o.last {
		for _, begin := range []string{"fatal error:", "runtime:", "panic:", "unexpected fault", "SIGSEGV", "SIGBUS"} {
			if strings.HasPrefix(line, begin) {
				return line, strings.Join(o.last[i:], "\n")
			}
		}
	}
	if len(o.last) > 0 {
		return o.last[len(o.last)-1], strings.Join(o.last, "\n")
	}
	return "", ""
}
