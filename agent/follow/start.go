package follow

import (
	"context"
	"errors"
	"time"
)

// start starts the next job, and reports whether another one may be due.
func (f *Follower) start(ctx context.Context, now time.Time) bool {
	at := f.machine.cursor
	switch {
	case f.machine.busy:
		return false
	case f.answer != nil:
		q := f.answer
		f.answer = nil
		f.machine.answered()
		go func() { f.done <- f.applier.leave(f.applier.sync(at, q)) }()
		return false
	case f.again != nil:
		j := job{kind: jobRetry, cursor: at, fetched: *f.again}
		f.again, f.machine.fetching = nil, false
		f.startJob(ctx, j)
		return false
	}
	j, ok := f.machine.next(now, f.retryAt)
	switch {
	case !ok:
		return false
	case j.kind == jobAsk:
		request, silent := f.applier.pullRequest(j), f.silent
		go func() { f.asked <- ask(ctx, f.cfg.Registry, request, j, patience(silent)) }()
		return true
	case j.kind == jobRetry && f.startFetch(ctx, now):
		return true
	}
	f.startJob(ctx, j)
	return false
}

// startJob starts a job of which there is one at a time.
func (f *Follower) startJob(ctx context.Context, j job) {
	f.machine.busy = true
	go func() { f.done <- f.work(ctx, j) }()
}

// startFetch fetches the sources that due retries lack, beside other work. It reports whether
// there are any.
func (f *Follower) startFetch(ctx context.Context, now time.Time) bool {
	missing := f.applier.missing(now)
	if len(missing) == 0 {
		return false
	}
	f.machine.fetching = true
	go func() {
		sources, err := Fetch(ctx, f.cfg.Registry, missing, f.applier.unsound)
		f.fetched <- fetched{sources, err}
	}()
	return true
}

// takeAnswer takes in that the registry has begun to answer, or has not.
func (f *Follower) takeAnswer(now time.Time, q *question) {
	err := q.failed()
	if err == nil {
		f.answer, f.silent = q, 0
		f.answering.Store(true)
		return
	}
	q.close()
	if errors.Is(err, errSilent) {
		f.silent++
	}
	f.machine.unanswered(now, q.began, err)
	f.tell(now, outcome{kind: jobSync, err: err})
	f.publish()
}
