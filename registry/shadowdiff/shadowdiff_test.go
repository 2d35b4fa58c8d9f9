package shadowdiff_test

import (
	"context"
	"encoding/json"
	"math"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/query"
	"github.com/scriptorium-dev/scriptorium/registry/shadowdiff"
	"github.com/scriptorium-dev/scriptorium/script"
)

// answers are those of agents that follow all tenants.
type answers []*eventv1.ShadowAnswer

func (a answers) Ask(_ context.Context, _ query.Question, take func(query.Part)) (query.Result, error) {
	for _, m := range a {
		take(query.Part{Answer: &eventv1.Answer{Kind: &eventv1.Answer_Shadow{Shadow: m}}})
	}
	return query.Result{}, nil
}

// TestAnAgentThatLies: what others found shows beside it, and clients can read all of it.
func TestAnAgentThatLies(t *testing.T) {
	found, err := shadowdiff.Collect(t.Context(), answers{
		{Calls: &scriptv1.ShadowCalls{Step: 1, Equal: script.MaxShadowCount, Different: script.MaxShadowCount}},
		{Findings: &scriptv1.ShadowFindings{Samples: []*scriptv1.ShadowSample{{Time: &timestamppb.Timestamp{Seconds: math.MaxInt64}, Paths: []string{"/a"}}}}},
		{Calls: &scriptv1.ShadowCalls{Step: 1, Equal: 3, Different: 1}},
	}, shadowdiff.Request{Release: script.Release{Name: script.Name{Tenant: "acme", Script: "route"}, Candidate: &script.Candidate{}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := wire.ToShadowCalls(wire.FromShadowCalls(&found.Calls)); got == nil || *got != (script.ShadowCalls{Step: 1, Equal: 3, Different: 1}) {
		t.Errorf("a client reads %+v", got)
	}
	if _, err := json.Marshal(found.Findings.Samples); err != nil {
		t.Errorf("the samples: %v", err)
	}
}
