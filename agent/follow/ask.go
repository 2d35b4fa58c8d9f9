package follow

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"time"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// nonceBytes make an answer of the past, or one to somebody else, useless.
const nonceBytes = 16

// question is a Pull that the registry has begun to answer. The follower waits for that
// beside its other work: a registry that does not answer must not hold up what NATS brings.
type question struct {
	job     job // that it was asked for
	began   time.Time
	parent  context.Context // of all that is done with the answer
	ctx     context.Context // of the stream
	silence silenceLimit
	request *registryv1.PullRequest

	next  func() (*registryv1.PullResponse, error, bool)
	stop  func()
	first *registryv1.PullResponse // nil with an error
	err   error
	ended bool // without a response
}

// ask opens a Pull, and waits for its first response.
func ask(parent context.Context, registry Registry, request *registryv1.PullRequest, j job, patience time.Duration) *question {
	ctx, silence := withSilenceLimit(parent, patience)
	q := &question{job: j, began: time.Now(), parent: parent, ctx: ctx, silence: silence, request: request}
	q.next, q.stop = iter.Pull2(registry.Pull(ctx, request))
	var more bool
	q.first, q.err, more = q.next()
	q.silence.pause()
	q.ended = !more
	return q
}

// responses yields all that the registry answers.
func (q *question) responses(yield func(*registryv1.PullResponse, error) bool) {
	resp, err, more := q.first, q.err, !q.ended
	for more && yield(resp, err) {
		q.silence.heard()
		resp, err, more = q.next()
	}
}

func (q *question) close() {
	q.stop()
	q.silence.stop()
}

// failed returns why the registry did not begin to answer; nil if it did, or if it is of
// another protocol, in which it can be asked again.
func (q *question) failed() error {
	switch {
	case q.err == nil && q.ctx.Err() != nil:
		return context.Cause(q.ctx)
	case q.err == nil || errors.Is(q.err, ErrOldRegistry):
		return nil
	}
	return q.silence.explain(q.err)
}

// pullRequest returns what a sync asks for. No job is in progress.
func (a *applier) pullRequest(j job) *registryv1.PullRequest {
	since := j.cursor.Revision
	if j.thorough {
		since = 0
	}
	nonce := make([]byte, nonceBytes)
	_, _ = rand.Read(nonce) // never fails
	return &registryv1.PullRequest{
		// Whoever lost its cursor still has its sources.
		WithoutSources: since == 0 && hasAny(a.state.Live()),
		Fleet:          j.cursor.Fleet, Since: int64(since), Tenants: a.open.tenants.Globs(), Nonce: nonce,
		Agent: a.agent, Incarnation: a.life,
	}
}

// patience is how long the registry may take to begin its answer. One under load may need
// longer: giving up on it each time after the same while would only add to the load.
func patience(silent int) time.Duration { return min(idleTimeout, answerTimeout<<min(silent, 10)) }

// fetched is what was fetched for a retry.
type fetched struct {
	sources map[script.Digest][]byte
	err     error // why some are missing
}

// missing returns the digests of the sources that the retries due now lack, up to as much as
// the agent holds in memory together. No job is in progress.
func (a *applier) missing(now time.Time) (missing []script.Digest) {
	bytes := 0
	for _, f := range a.due(now) {
		for c := range f.item.Object.Contents {
			if len(missing) < fetchAtOnce && bytes < stageBytes && !a.state.HasSource(c.Digest) {
				missing, bytes = append(missing, c.Digest), bytes+c.Size
			}
		}
	}
	return missing
}
