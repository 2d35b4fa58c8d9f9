package inside

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/scriptorium-dev/scriptorium/agent/callstats"
	"github.com/scriptorium-dev/scriptorium/agent/host"
	"github.com/scriptorium-dev/scriptorium/engine"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// hostServices is what programs may use here: counters and buckets are this process's own, and
// what they log goes to the agent, which bounds it again.
type hostServices struct {
	*host.Host
	home     home
	settings func(tenant string) script.TenantSettings
	calls    *callstats.Stats // counts the lines that are left out

	mu   sync.Mutex    // guards room
	room *rate.Limiter // bytes of lines a second

	lines   chan *workerv1.LogLine
	dropped atomic.Int64 // lines, since the last report to the agent
}

var _ engine.Host = (*hostServices)(nil)

// Bounds of the lines that wait for the agent, and that are sent together.
const (
	maxLines     = 1024
	together     = 64
	maxLine      = 8 << 10 // bytes
	maxTrace     = 128
	lineOverhead = 64 // bytes that a line counts for besides its text
)

func newHostServices(h *host.Host, from home, settings func(string) script.TenantSettings, calls *callstats.Stats) *hostServices {
	return &hostServices{
		Host: h, home: from, settings: settings, calls: calls,
		room: &rate.Limiter{}, lines: make(chan *workerv1.LogLine, maxLines),
	}
}

// Log implements engine.Host.
func (l *hostServices) Log(inv *engine.Invocation, level engine.Level, message string) {
	message = asText(message, maxLine)
	if !l.admits(len(message)+lineOverhead, l.settings(inv.Tenant).LogBytes) {
		l.drop(inv)
		return
	}
	select {
	case l.lines <- &workerv1.LogLine{
		Level: string(level), Message: message,
		Script: inv.Script, Version: inv.Version, Traceparent: asText(inv.Traceparent, maxTrace),
	}:
	default:
		l.drop(inv)
	}
}

func (l *hostServices) drop(inv *engine.Invocation) {
	l.dropped.Add(1)
	l.calls.Dropped(script.Name{Tenant: inv.Tenant, Script: inv.Script}, 1)
}

// asText returns at most so many bytes of s, which is text then.
func asText(s string, most int) string {
	s = strings.ToValidUTF8(s[:min(len(s), most)], "\uFFFD") // which may be longer
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}

// admits takes the bytes from what may be logged, of which there is so much a second.
func (l *hostServices) admits(bytes, most int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.room.Burst() != most { // the settings have changed
		l.room = rate.NewLimiter(rate.Limit(most), most)
	}
	return l.room.AllowN(time.Now(), min(bytes, most))
}

// run sends lines, as many together as there are, until ctx is done.
func (l *hostServices) run(ctx context.Context) error {
	for {
		var req workerv1.LogRequest
		select {
		case line := <-l.lines:
			req.Lines = append(req.Lines, line)
		case <-ctx.Done():
			return ctx.Err()
		}
		for more := true; more && len(req.GetLines()) < together; {
			select {
			case line := <-l.lines:
				req.Lines = append(req.Lines, line)
			default:
				more = false
			}
		}
		req.Dropped = l.dropped.Swap(0)
		if _, err := l.home.client.Log(ctx, &req); err != nil {
			return fmt.Errorf("hand over what scripts logged: %w", err)
		}
	}
}
