package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// answerTimeout bounds the wait for the first response of a stream.
	answerTimeout = 3 * time.Second
	// applyPatience does so for sources that events need: the changes of others wait
	// meanwhile. What does not come is fetched beside them.
	applyPatience = 100 * time.Millisecond
	fetchAtMost   = time.Second
	// idleTimeout bounds the wait for each further response.
	idleTimeout = 30 * time.Second
)

// Fetch returns those of the sources that the registry sends, verified. The
// error, of kind Unavailable, says why some are missing; nil when the registry
// does not have them. Fetch calls bad for each source that does not match its
// digest or that nobody asked for, and does not return it.
func Fetch(ctx context.Context, from Registry, digests []script.Digest, bad func(error)) (map[script.Digest][]byte, error) {
	return fetch(ctx, from, digests, bad, answerTimeout)
}

// fetch is Fetch with a bound for the time until the registry begins to answer.
func fetch(ctx context.Context, from Registry, digests []script.Digest, bad func(error), patience time.Duration) (map[script.Digest][]byte, error) {
	ctx, silence := withSilenceLimit(ctx, patience)
	defer silence.stop()
	wanted := make(map[script.Digest]struct{}, len(digests))
	for _, d := range digests {
		wanted[d] = struct{}{}
	}
	got := make(map[script.Digest][]byte, len(digests))
	for src, err := range from.FetchSources(ctx, digests) {
		if err != nil {
			return got, script.Errorf(script.Unavailable, "", "what it needs cannot be fetched from the registry: %w", silence.explain(err))
		}
		silence.heard()
		d, content, err := verify(src)
		if _, asked := wanted[d]; err == nil && !asked {
			err = fmt.Errorf("the source %v was not asked for", d)
		}
		if err != nil {
			bad(err)
			continue
		}
		if got[d] = content; len(got) == len(wanted) {
			return got, nil
		}
	}
	if err := context.Cause(ctx); err != nil {
		return got, script.Errorf(script.Unavailable, "", "what it needs cannot be fetched from the registry: %w", err)
	}
	return got, nil
}

// fetch fetches what a job needs. One that applies events waits no longer than fetchAtMost
// in all: the changes of others wait meanwhile.
func (a *applier) fetch(ctx context.Context, digests []script.Digest) (map[script.Digest][]byte, error) {
	if a.patience == applyPatience {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, fetchAtMost, errSilent)
		defer cancel()
	}
	return fetch(ctx, a.registry, digests, a.unsound, a.patience)
}

// verify returns the content of a source that has the digest it came with. It
// is never nil without an error.
func verify(src *scriptv1.Source) (script.Digest, []byte, error) {
	d, err := wire.ToDigest(src.GetDigest())
	if err != nil {
		return d, nil, fmt.Errorf("a source came with no sound digest: %w", err)
	}
	content := src.GetContent()
	if got := script.DigestOf(content); got != d {
		return d, nil, fmt.Errorf("the source %v came with the content of %v", d, got)
	}
	if content == nil {
		content = []byte{} // an empty source is one
	}
	return d, content, nil
}

// silenceLimit cancels a context when nothing came for a while: at first for
// the time given, and then for idleTimeout.
type silenceLimit struct {
	timer  *time.Timer
	ctx    context.Context
	cancel context.CancelCauseFunc
}

var (
	errSilent  = errors.New("the registry does not answer")
	errAwaited = errors.New("it has not come yet")
)

func withSilenceLimit(parent context.Context, first time.Duration) (context.Context, silenceLimit) {
	ctx, cancel := context.WithCancelCause(parent)
	timer := time.AfterFunc(first, func() { cancel(errSilent) })
	return ctx, silenceLimit{timer: timer, ctx: ctx, cancel: cancel}
}

// pause stops the clock until heard is called.
func (l silenceLimit) pause() { l.timer.Stop() }

// heard starts the clock anew.
func (l silenceLimit) heard() { l.timer.Reset(idleTimeout) }

// explain returns why the stream ended: what canceled it, if that is why.
func (l silenceLimit) explain(err error) error {
	if cause := context.Cause(l.ctx); cause != nil {
		return cause
	}
	return err
}

func (l silenceLimit) stop() {
	l.timer.Stop()
	l.cancel(nil)
}
