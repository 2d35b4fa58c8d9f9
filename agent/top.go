package agent

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/scriptorium-dev/scriptorium/agent/answer"
	"github.com/scriptorium-dev/scriptorium/agent/callstats"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of top queries.
const (
	// maxTopQueries is the number of queries in progress, as many as one registry sends. Each holds the counts of all
	// scripts that it is about.
	maxTopQueries    = 8
	maxTopPeriod     = 10 * time.Second
	defaultTopPeriod = 2 * time.Second
	maxTopScripts    = 1000
	// topBytes is the approximate size of the scripts in a part.
	topBytes = answer.MaxPart / 2
)

// top answers a query for the calls of scripts: it counts calls for the period of the query.
func (a *Agent) top(ctx context.Context, q *eventv1.Query, send answer.Send) error {
	select {
	case a.topQueries <- struct{}{}:
		defer func() { <-a.topQueries }()
	default:
		return script.Errorf(script.Overloaded, "", "the agent counts calls for %d others, the most at a time: ask again later", maxTopQueries)
	}
	m := q.GetTop()
	period := m.GetPeriod().AsDuration()
	if period <= 0 {
		period = defaultTopPeriod
	}
	of := script.Name{Tenant: q.GetTenant(), Script: m.GetName()}
	if a.calls.IsOther(of) {
		return script.Errorf(script.Unavailable, "", "the agent counts %v among others: more scripts are called than agentd --metrics-scripts allows for", of)
	}
	before := a.calls.Sample(of)
	timer := time.NewTimer(min(period, maxTopPeriod))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return script.Errorf(script.Timeout, "", "the registry does not wait as long as the agent counts: %w", context.Cause(ctx))
	}
	counted, took := a.calls.Sample(of).Since(before)
	most := maxTopScripts
	if n := int(m.GetLimit()); n > 0 {
		most = min(most, n)
	}
	return sendTop(counted, took, most, m.GetSort(), q.GetMaxBytes()-endBytes, send)
}

// sendTop sends the first scripts in the order of by, as many as most and room allow, and the sum of the others.
func sendTop(counted []callstats.Counted, took time.Duration, most int, by string, room int64, send answer.Send) error {
	slices.SortFunc(counted, func(x, y callstats.Counted) int {
		return cmp.Or(topOrder(by, &y, &x), cmp.Compare(x.Script.String(), y.Script.String()))
	})
	part, bytes := &eventv1.Top{Period: durationpb.New(took)}, int64(0)
	others, sent := &eventv1.ScriptTop{ProcessorTime: durationpb.New(0)}, 0
	for i := range counted {
		c := &counted[i]
		one := topOf(c)
		size := int64(proto.Size(one)) + 8
		if c.Script.Script == "" || sent == most || size > room {
			others.Calls, others.Errors = others.GetCalls()+c.Calls, others.GetErrors()+c.Errors
			others.ProcessorTime = durationpb.New(others.GetProcessorTime().AsDuration() + c.Ran)
			continue
		}
		room, sent = room-size, sent+1
		if bytes += size; bytes > topBytes && len(part.GetScripts()) > 0 {
			if err := send(&eventv1.Answer{Kind: &eventv1.Answer_Top{Top: part}}); err != nil {
				return err
			}
			part, bytes = &eventv1.Top{Period: part.GetPeriod()}, size
		}
		part.Scripts = append(part.Scripts, one)
	}
	if others.GetCalls() > 0 {
		part.Others = others
	}
	return send(&eventv1.Answer{Kind: &eventv1.Answer_Top{Top: part}})
}

// topOrder compares by the order that the registry requested.
func topOrder(by string, x, y *callstats.Counted) int {
	switch by {
	case "errors":
		return cmp.Compare(x.Errors, y.Errors)
	case "p50":
		return cmp.Compare(x.Buckets.Quantile(0.5), y.Buckets.Quantile(0.5))
	case "p99":
		return cmp.Compare(x.Buckets.Quantile(0.99), y.Buckets.Quantile(0.99))
	}
	return cmp.Compare(x.Calls, y.Calls)
}

func topOf(c *callstats.Counted) *eventv1.ScriptTop {
	first, counts := c.Buckets.Sparse()
	return &eventv1.ScriptTop{
		Tenant: c.Script.Tenant, Name: c.Script.Script, Calls: c.Calls, Errors: c.Errors,
		FirstBucket: int32(first), Buckets: counts, ProcessorTime: durationpb.New(c.Ran), //nolint:gosec // less than histogram.Size
	}
}
