package agent

import (
	"context"

	"github.com/scriptorium-dev/scriptorium/agent/answer"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// recordBytes is about how many bytes a record takes in an answer beside its own.
const recordBytes = 8

// recentCalls answers a query for records of calls of a script.
func (a *Agent) recentCalls(_ context.Context, q *eventv1.Query, send answer.Send) error {
	m := q.GetRecentCalls()
	of := script.Name{Tenant: q.GetTenant(), Script: m.GetName()}
	if err := of.Validate(); err != nil {
		return err
	}
	records, room := a.recorder.Recent(of), q.GetMaxBytes()-endBytes
	if n := int(m.GetLimit()); n > 0 {
		records = records[:min(n, len(records))]
	}
	part, bytes := &eventv1.RecentCalls{}, int64(0)
	for _, record := range records {
		size := int64(len(record) + recordBytes)
		if room -= size; room < 0 {
			break
		}
		if bytes += size; bytes > linesBytes && len(part.GetRecords()) > 0 {
			if err := send(&eventv1.Answer{Kind: &eventv1.Answer_RecentCalls{RecentCalls: part}}); err != nil {
				return err
			}
			part, bytes = &eventv1.RecentCalls{}, size
		}
		part.Records = append(part.Records, record)
	}
	return send(&eventv1.Answer{Kind: &eventv1.Answer_RecentCalls{RecentCalls: part}})
}
