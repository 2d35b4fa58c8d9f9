package etcdstore

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/script"
)

// begin begins the span of a transaction. What the transaction writes to the head is its context.
func (s *Store) begin(ctx context.Context, objects string) (_ context.Context, end func(script.Revision, error)) {
	ctx, span := s.tracer.Start(ctx, "etcd transaction", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("db.system.name", "etcd"), attribute.String("scriptorium.object", tracecontext.Text(objects)),
	))
	return ctx, func(revision script.Revision, err error) {
		if err != nil {
			span.SetStatus(codes.Error, tracecontext.Text(err.Error()))
		} else {
			span.SetAttributes(attribute.Int64("scriptorium.revision", int64(revision)))
		}
		span.End()
	}
}

// outcome is what the answer means to the span.
func outcome(resp *clientv3.TxnResponse, err error) (script.Revision, error) {
	switch {
	case err != nil:
		return 0, err
	case !resp.Succeeded:
		return 0, script.Errorf(script.Conflict, "", "somebody else changed it first")
	}
	return script.Revision(resp.Header.Revision), nil
}
