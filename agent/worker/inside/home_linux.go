package inside

import (
	"context"
	"fmt"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// home is the agent, where sources and the contents of values come from.
type home struct{ client workerv1.HomeClient }

var (
	_ cache.Sources = home{}
	_ cache.Reader  = home{}
)

// Bounds on how long the agent is waited for. A source may have to come from the
// registry; a value is on the agent's disk.
const (
	sourcePatience = 10 * time.Second
	valuePatience  = time.Second
)

// Source implements cache.Sources.
func (h home) Source(ctx context.Context, d script.Digest) ([]byte, error) {
	return h.content(ctx, d, sourcePatience)
}

// Content implements cache.Reader.
func (h home) Content(d script.Digest) ([]byte, error) {
	return h.content(context.Background(), d, valuePatience)
}

func (h home) content(ctx context.Context, d script.Digest, patience time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	got, err := h.client.Content(ctx, &workerv1.ContentRequest{Digest: wire.FromDigest(d)})
	if err != nil {
		return nil, wire.FromStatus(err)
	}
	if script.DigestOf(got.GetContent()) != d {
		return nil, script.Errorf(script.Internal, "", "the agent sent another content than that of %v", d)
	}
	return got.GetContent(), nil
}

// Bounds of the lines that wait for the agent, and that are sent together.
const (
	maxLines = 1024
	together = 128
)

// logger hands lines over to the agent.
type logger struct {
	home  home
	lines chan *workerv1.LogLine
	lost  chan int64 // how many were left out; holds one number
}

func newLogger(h home) *logger {
	l := &logger{home: h, lines: make(chan *workerv1.LogLine, maxLines), lost: make(chan int64, 1)}
	l.lost <- 0
	return l
}

// log is a Log.
func (l *logger) log(line *workerv1.LogLine) {
	select {
	case l.lines <- line:
	default:
		l.lost <- 1 + <-l.lost
	}
}

// run sends lines, as many together as there are, until ctx is done.
func (l *logger) run(ctx context.Context) error {
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
		req.Dropped = <-l.lost
		l.lost <- 0
		if _, err := l.home.client.Log(ctx, &req); err != nil {
			return fmt.Errorf("hand over what scripts logged: %w", err)
		}
	}
}
