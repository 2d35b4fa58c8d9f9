package fanout

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/registry/query"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of the answers that wait to be read. What is beyond them is lost.
const (
	maxPendingAnswers      = 100_000
	maxPendingAnswersBytes = 64 << 20
)

var _ query.Transport = (*Fanout)(nil)

// PublishQuery implements query.Transport.
func (f *Fanout) PublishQuery(ctx context.Context, q *eventv1.Query) error {
	if err := f.publish(ctx, f.subjects.Query(), q); err != nil {
		return script.Errorf(script.Unavailable, "", "publish to %s: %w", f.subjects.Query(), err)
	}
	return nil
}

// PublishContent implements query.Transport.
func (f *Fanout) PublishContent(ctx context.Context, m *eventv1.QueryContent) error {
	subject := f.subjects.Content(m.GetAgent())
	if err := f.publish(ctx, subject, m); err != nil {
		return script.Errorf(script.Unavailable, "", "publish to %s: %w", subject, err)
	}
	return nil
}

// SubscribeAnswers implements query.Transport.
func (f *Fanout) SubscribeAnswers(take func(agent string, data []byte)) (stop func(), err error) {
	prefix := f.subjects.Answers("")
	sub, err := f.nc.Subscribe(f.subjects.AllAnswers(), func(m *nats.Msg) { take(strings.TrimPrefix(m.Subject, prefix), m.Data) })
	if err == nil {
		err = sub.SetPendingLimits(maxPendingAnswers, maxPendingAnswersBytes)
	}
	if err != nil {
		return nil, script.Errorf(script.Unavailable, "", "subscribe to %s: %w", f.subjects.AllAnswers(), err)
	}
	return func() {
		if err := sub.Unsubscribe(); err != nil {
			f.log.Debug("the subscription to answers ended with its connection", "error", err)
		}
	}, nil
}
