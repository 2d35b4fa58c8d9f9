package inside

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/callstats"
	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
)

// Bounds of how calls of candidates are brought to the agent, which tells them in its next
// status.
const (
	countEvery     = time.Second
	countPatience  = 5 * time.Second
	countsTogether = 500
	// bytesTogether bounds all counts of a message but the last: samples may be large, and the agent takes
	// messages of up to 1 MiB.
	bytesTogether = 512 << 10
)

// bringCounts tells the agent of the calls that run here, until ctx is done.
func (s *service) bringCounts(ctx context.Context) {
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.bring(ctx)
	}
}

// bring sends the agent the counts of all calls that it does not know of.
func (s *service) bring(ctx context.Context) {
	s.bringCalls(ctx)
	var parcel parcel
	for _, r := range s.table.Candidates() {
		if !parcel.add(r) || len(parcel.of) < countsTogether && parcel.bytes < bytesTogether {
			continue
		}
		s.send(ctx, &parcel)
	}
	s.send(ctx, &parcel)
}

// callsTogether is the number of scripts whose calls one message reports.
const callsTogether = 64

// bringCalls sends the agent what was counted of all calls. What does not arrive is sent the next time.
func (s *service) bringCalls(ctx context.Context) {
	var changes []*callstats.Change
	send := func() error {
		ctx, cancel := context.WithTimeout(ctx, countPatience)
		defer cancel()
		req := &workerv1.CallsRequest{}
		for _, c := range changes {
			req.Scripts = append(req.Scripts, link.FromFigures(c.Script.Script, &c.Figures))
		}
		if _, err := s.home.client.Calls(ctx, req); err != nil {
			s.log.Warn("the agent did not get the figures of some calls; they are sent again", "error", err)
			return err
		}
		s.calls.Brought(changes)
		changes = changes[:0]
		return nil
	}
	for c := range s.calls.Changes() {
		if changes = append(changes, c); len(changes) == callsTogether && send() != nil {
			return
		}
	}
	if len(changes) > 0 {
		_ = send() // which has said what is wrong
	}
}

// parcel is counts that go together.
type parcel struct {
	req workerv1.CountRequest
	of  []*cache.Release // that they were taken from
	// bytes of the message, about
	bytes int
}

// add takes the counts of a release with a candidate, and reports whether there are any.
func (p *parcel) add(r *cache.Release) bool {
	count := &workerv1.Count{Script: r.Name.Script, Version: r.Candidate.Version.Number, Attempt: r.Candidate.Attempt}
	if besides := r.Besides(); besides != nil {
		count.ActiveCalls = wire.FromStepCalls(besides.Take())
	}
	if r.Shadow != nil {
		found := r.Shadow.TakeFindings()
		count.Shadow, count.Findings = wire.FromShadowCalls(r.Shadow.Take()), wire.FromFindings(&found)
	}
	of := r.OfCandidate()
	if of.Calls != nil {
		count.Calls, count.FailedCalls = of.Calls.Take()
	}
	if of.StepCalls != nil {
		count.StepCalls = wire.FromStepCalls(of.StepCalls.Take())
	}
	if count.GetCalls() == 0 && count.GetStepCalls() == nil && count.GetActiveCalls() == nil && count.GetShadow() == nil && count.GetFindings() == nil {
		return false
	}
	p.req.Counts = append(p.req.Counts, count)
	p.of = append(p.of, r)
	p.bytes += proto.Size(count)
	return true
}

// putBack counts again what was taken from the release.
func putBack(r *cache.Release, c *workerv1.Count) {
	if besides := wire.ToStepCalls(c.GetActiveCalls()); besides != nil {
		r.Besides().Add(*besides)
	}
	if calls := wire.ToShadowCalls(c.GetShadow()); calls != nil {
		r.Shadow.Add(*calls)
	}
	if found := wire.ToFindings(c.GetFindings()); r.Shadow != nil {
		r.Shadow.AddFindings(&found)
	}
	if r = r.OfCandidate(); r.Calls != nil {
		r.Calls.Add(c.GetCalls(), c.GetFailedCalls())
	}
	if step := wire.ToStepCalls(c.GetStepCalls()); step != nil {
		r.StepCalls.Add(*step)
	}
}

// send sends the counts. Those that do not arrive count among the next.
func (s *service) send(ctx context.Context, p *parcel) {
	if len(p.of) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, countPatience)
	defer cancel()
	if _, err := s.home.client.Count(ctx, &p.req); err != nil {
		s.log.Warn("the agent did not get some counts of calls of candidates; they are sent again", "error", err)
		for i, c := range p.req.GetCounts() {
			putBack(p.of[i], c)
		}
	}
	p.req.Counts, p.of, p.bytes = nil, nil, 0
}
