package profiling_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/registry/profiling"
	"github.com/scriptorium-dev/scriptorium/registry/query"
	"github.com/scriptorium-dev/scriptorium/script"
)

var route = script.Name{Tenant: "acme", Script: "route"}

// asker answers by what is set, and keeps what it was asked.
type asker struct {
	answers []*eventv1.Answer
	result  query.Result
	asked   []query.Question
	wait    bool // for the context
}

func (a *asker) Ask(ctx context.Context, q query.Question, take func(query.Part)) (query.Result, error) {
	a.asked = append(a.asked, q)
	if q.Query.GetEndProfile() != nil {
		return query.Result{}, ctx.Err()
	}
	for _, m := range a.answers {
		take(query.Part{Agent: m.GetAgent(), Answer: m})
	}
	if a.wait {
		<-ctx.Done()
	}
	return a.result, ctx.Err()
}

func scriptPart(agent string, m *eventv1.ScriptProfile) *eventv1.Answer {
	return &eventv1.Answer{Agent: agent, Kind: &eventv1.Answer_ScriptProfile{ScriptProfile: m}}
}

// TestManyFrames: what takes few bytes of a message, and many in memory, is bounded.
func TestManyFrames(t *testing.T) {
	frames := make([]*eventv1.ProfileFrame, 10_000)
	for i := range frames {
		frames[i] = &eventv1.ProfileFrame{}
	}
	a := &asker{}
	for range 100 {
		a.answers = append(a.answers, scriptPart("liar", &eventv1.ScriptProfile{Frames: frames}))
	}
	a.answers = append(a.answers, scriptPart("n1", &eventv1.ScriptProfile{Frames: frames}))
	found, err := profiling.ProfileScript(t.Context(), a, profiling.Script{ID: "id", Of: route, Duration: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, agent := range found.Agents {
		for _, part := range agent.Parts {
			n[agent.Agent] += len(part.GetFrames())
		}
	}
	if n["liar"] > 1<<16 || n["n1"] != 10_000 {
		t.Errorf("the registry keeps %v frames", n)
	}
}

// TestWhatAgentsMaySay: whatever an agent sends, what is left can be true, and can be shown.
func TestWhatAgentsMaySay(t *testing.T) {
	deep := make([]uint32, 65)
	a := &asker{answers: []*eventv1.Answer{
		scriptPart("liar", &eventv1.ScriptProfile{
			Version: 9, Calls: math.MaxUint64, MissedInstructions: math.MaxUint64,
			Frames: []*eventv1.ProfileFrame{
				{Builtin: "\x1b[2J" + strings.Repeat("x", 1000)}, {Builtin: "\xff\u202e"}, {Function: -1, Line: math.MaxInt32}, {Function: 3, Line: 4},
			},
			Stacks: []*eventv1.ProfileStack{
				{Frames: []uint32{3, 2}, Instructions: math.MaxUint64},
				{Frames: []uint32{4}, Instructions: 1},
				{Frames: []uint32{math.MaxUint32}, Instructions: 1},
				{Frames: nil, Instructions: 1},
				{Frames: deep, Instructions: 1},
				{Frames: []uint32{0}, Instructions: 0},
				nil,
			},
		}),
		{Agent: "liar", Kind: &eventv1.Answer_ProfileSummary{ProfileSummary: &eventv1.ProfileSummary{Took: durationpb.New(1 << 60), OtherCalls: math.MaxUint64}}},
		{Agent: "liar", Kind: &eventv1.Answer_RecentLogs{RecentLogs: &eventv1.RecentLogs{}}},
		{Agent: "liar", Kind: &eventv1.Answer_ScriptProfile{}},
	}}
	found, err := profiling.ProfileScript(t.Context(), a, profiling.Script{ID: "id", Of: route, Duration: time.Second})
	if err != nil || len(found.Agents) != 1 || len(found.Agents[0].Parts) != 2 {
		t.Fatalf("%+v, %v", found, err)
	}
	m, s := found.Agents[0].Parts[0], found.Agents[0].Summary
	if len(m.GetStacks()) != 1 || m.GetStacks()[0].GetInstructions() != 1<<50 || m.GetCalls() != 1<<50 || m.GetMissedInstructions() != 1<<50 || s.GetOtherCalls() != 1<<50 {
		t.Errorf("%v, %v", m, s)
	}
	if f := m.GetFrames(); f[0].GetBuiltin() != "?[2J"+strings.Repeat("x", 60) || f[1].GetBuiltin() != "?" || f[2].GetFunction() != 0 || f[2].GetLine() != script.MaxSourceBytes || f[3].GetLine() != 4 {
		t.Errorf("%v", f)
	}
	if took := s.GetTook().AsDuration(); took > time.Minute+time.Second {
		t.Errorf("a profile of %v", took)
	}
}

// TestQuestions: agents have less time than the registry has patience.
func TestQuestions(t *testing.T) {
	a := &asker{}
	if _, err := profiling.ProfileScript(t.Context(), a, profiling.Script{Caller: "ann", ID: "id", Of: route, Version: 7, Agents: []string{"edge-*"}, Duration: time.Minute}); err != nil {
		t.Fatal(err)
	}
	q, m := a.asked[0], a.asked[0].Query.GetScriptProfile()
	if q.Caller != "ann" || q.Tenant != "acme" || q.Agents[0] != "edge-*" || q.Timeout <= time.Minute || q.Timeout > 3*time.Minute ||
		m.GetName() != "route" || m.GetVersion() != 7 || m.GetProfile() != "id" || m.GetDuration().AsDuration() != time.Minute {
		t.Errorf("%+v", q)
	}
}

// TestNobodyWaits: agents end a profile that nobody waits for any more.
func TestNobodyWaits(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := &asker{wait: true}
	if _, err := profiling.ProfileScript(ctx, a, profiling.Script{Caller: "ann", ID: "one", Of: route, Agents: []string{"x"}, Duration: time.Minute}); err == nil {
		t.Error("nobody waits, and there is a profile")
	}
	if _, err := profiling.ProfileProcess(ctx, a, profiling.Process{Caller: "ann", ID: "two", Agent: "y", Type: "cpu", Duration: time.Minute}); err == nil {
		t.Error("nobody waits, and there is a profile of a process")
	}
	if len(a.asked) != 4 {
		t.Fatalf("%+v", a.asked)
	}
	if q, m := a.asked[1], a.asked[1].Query.GetEndProfile(); q.Tenant != "acme" || q.Agents[0] != "x" || m.GetName() != "route" || m.GetProfile() != "one" {
		t.Errorf("%+v", q)
	}
	if q, m := a.asked[3], a.asked[3].Query.GetEndProfile(); q.Tenant != "" || q.Agents[0] != "y" || m.GetName() != "" || m.GetProfile() != "two" {
		t.Errorf("%+v", q)
	}
}

func TestDurations(t *testing.T) {
	for _, test := range []struct {
		kind string
		said *durationpb.Duration
		want time.Duration // -1: refused
	}{
		{"cpu", nil, 10 * time.Second},
		{"mutex", durationpb.New(time.Minute), time.Minute},
		{"block", durationpb.New(time.Minute + 1), -1},
		{"cpu", durationpb.New(0), -1},
		{"heap", durationpb.New(time.Hour), 0},
		{"goroutine", nil, 0},
		{"", nil, -1},
	} {
		got, err := profiling.ProcessDuration(test.kind, test.said)
		if test.want < 0 != (script.KindOf(err) == script.Invalid) || err == nil && got != test.want {
			t.Errorf("%s, %v: %v, %v", test.kind, test.said, got, err)
		}
	}
}
