package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// output takes what a process writes on standard error: lines of its log, which go to
// the agent's; and, when Go gives it up, the reason. It takes so many bytes a second: a
// process that writes more waits.
type output struct {
	ended chan struct{} // closed when the process has: nobody waits any more

	mu      sync.Mutex
	log     *slog.Logger
	partial []byte
	last    []string // lines that are not of its log: the beginning of a crash
	second  time.Time
	taken   int // bytes in that second
}

// Bounds of what is taken of a process.
const (
	maxOutputLine = 8 << 10
	maxOutput     = 64 << 10 // bytes a second
	maxRead       = 4 << 10  // bytes at a time
	maxLast       = 40       // lines
)

func newOutput(log *slog.Logger) *output {
	return &output{log: log, ended: make(chan struct{})}
}

// of says whose process it is.
func (o *output) of(tenant string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log = o.log.With("tenant", tenant)
}

// readAll takes all that comes from r, until it ends.
func (o *output) readAll(r io.Reader) {
	buf := make([]byte, maxRead)
	for {
		n, err := r.Read(buf)
		o.take(buf[:n])
		if err != nil {
			return
		}
	}
}

// take takes some bytes, now or when the second is over in which there were too many.
func (o *output) take(b []byte) {
	over := o.wait(len(b))
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		line, rest, ended := bytes.Cut(b, []byte{'\n'})
		if room := maxOutputLine - len(o.partial); len(line) > room {
			line = line[:room]
		}
		o.partial = append(o.partial, line...)
		if !ended {
			return
		}
		o.line(o.partial, over)
		o.partial = o.partial[:0]
		b = rest
	}
}

// wait returns when n bytes may be taken. If the process ends before that, it returns at
// once and reports that they are too many.
func (o *output) wait(n int) (over bool) {
	o.mu.Lock()
	now := time.Now()
	left := o.second.Add(time.Second).Sub(now)
	if left <= 0 || left > time.Second {
		o.second, o.taken, left = now, 0, time.Second
	}
	o.taken += n
	over = o.taken > maxOutput
	o.mu.Unlock()
	if !over {
		return false
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-o.ended:
		return true
	case <-timer.C:
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.second, o.taken = time.Now(), n
	return false
}

// line takes one line; if there are too many, only what may be the reason of an end.
// o.mu is held.
func (o *output) line(line []byte, over bool) {
	if !bytes.HasPrefix(line, []byte{'{'}) {
		o.keep(line)
		return
	}
	if over {
		return
	}
	fields := map[string]any{}
	if json.Unmarshal(line, &fields) != nil {
		o.keep(line)
		return
	}
	msg, _ := fields[slog.MessageKey].(string)
	if msg == "" {
		o.keep(line)
		return
	}
	level := slog.LevelInfo
	if text, ok := fields[slog.LevelKey].(string); ok {
		_ = level.UnmarshalText([]byte(text)) // what is no level leaves it as it is
	}
	attrs := make([]any, 0, len(fields))
	for name, value := range fields {
		if name != slog.LevelKey && name != slog.MessageKey && name != slog.TimeKey {
			attrs = append(attrs, slog.Any(name, value))
		}
	}
	// In a group they cannot pass for what the agent says of the process.
	o.log.LogAttrs(context.Background(), min(max(level, slog.LevelDebug), slog.LevelError), msg, slog.Group("process", attrs...))
}

// keep keeps a line that is not of the process's log. o.mu is held.
func (o *output) keep(line []byte) {
	if len(o.last) < maxLast { // the first lines have the reason
		o.last = append(o.last, strings.ToValidUTF8(string(line), "\uFFFD"))
	}
}

// crash returns the first line of why Go gave the process up, and more of it; "" if it
// did not.
func (o *output) crash() (first, more string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, line := range o.last {
		for _, begin := range []string{"fatal error:", "runtime:", "panic:", "unexpected fault", "SIGSEGV", "SIGBUS"} {
			if strings.HasPrefix(line, begin) {
				return cut(line, maxSaid), cut(strings.Join(o.last[i:], "\n"), maxSaid)
			}
		}
	}
	if len(o.last) > 0 {
		return cut(o.last[len(o.last)-1], maxSaid), cut(strings.Join(o.last, "\n"), maxSaid)
	}
	return "", ""
}

// maxSaid bounds, in bytes, a text by a process that the agent passes on.
const maxSaid = 4 << 10

// cut returns s, valid and with no more than so many bytes.
func cut(s string, most int) string {
	if len(s) > most {
		end := most - len("…")
		for end > 0 && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
