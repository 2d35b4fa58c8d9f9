package tryout_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/query"
	"github.com/scriptorium-dev/scriptorium/registry/tryout"
	"github.com/scriptorium-dev/scriptorium/script"
)

// agents answer by their names.
type agents struct {
	t     *testing.T
	asked []string
}

// Ask implements tryout.Asker.
func (a *agents) Ask(_ context.Context, q query.Question, take func(query.Part)) (query.Result, error) {
	var m eventv1.TryScript
	digest := sha256.Sum256(q.Content)
	try := q.Query.GetTry()
	if err := proto.Unmarshal(q.Content, &m); err != nil || m.GetTenant() != q.Tenant || string(try.GetDigest()) != string(digest[:]) ||
		try.GetSize() != int64(len(q.Content)) || len(q.Agents) != 1 || try.GetIncarnation() != "life of "+q.Agents[0] {
		a.t.Errorf("%v, %v", &q, err)
	}
	name := q.Agents[0]
	a.asked = append(a.asked, name)
	switch strings.TrimRight(name, "0123456789") {
	case "older":
		return query.Result{Older: q.Agents}, nil
	case "silent":
		return query.Result{Silent: q.Agents}, nil
	case "gone":
		return query.Result{Silent: q.Agents, Gone: q.Agents}, nil
	case "strict":
		return query.Result{Failed: []query.Failure{{Agent: name, Err: script.Errorf(script.Denied, "signature", "nobody signed it")}}}, nil
	case "mute":
		return query.Result{Answered: q.Agents}, nil
	case "liar":
		for range 100 {
			take(query.Part{Agent: name, Answer: &eventv1.Answer{Kind: &eventv1.Answer_Try{Try: &eventv1.TryAnswer{
				Run: &eventv1.TryRun{},
				Results: []*eventv1.TryResult{{
					Results: [][]byte{[]byte("{")}, Error: &scriptv1.Error{Kind: "SCRIPT", Stack: slices.Repeat([]*scriptv1.Frame{{Function: strings.Repeat("f", 1000)}}, 1000)},
					Test: &eventv1.TryTest{Differences: slices.Repeat([]*eventv1.TryDifference{{Want: "{"}, {Got: "1"}}, 500)},
					Logs: make([]*eventv1.TryLog, 1000),
				}},
			}}}})
		}
		return query.Result{Answered: q.Agents}, nil
	}
	take(query.Part{Agent: name, Answer: &eventv1.Answer{Kind: &eventv1.Answer_Try{Try: &eventv1.TryAnswer{
		Run: &eventv1.TryRun{}, Results: []*eventv1.TryResult{{Results: [][]byte{[]byte("1")}}},
	}}}})
	return query.Result{Answered: q.Agents}, nil
}

// request asks the agents with the names, "!" before those that answer no queries.
func request(agent string, names ...string) tryout.Request {
	r := tryout.Request{
		Caller: "ann", Agent: agent, Timeout: time.Second, Note: func(string) error { return nil },
		Script: &eventv1.TryScript{Tenant: "acme", Name: "route", Calls: []*eventv1.TryCall{{}, {}}},
	}
	for _, name := range names {
		plain := strings.TrimPrefix(name, "!")
		r.Answerers = append(r.Answerers, fleet.Answerer{Agent: plain, Incarnation: "life of " + plain, Queries: plain == name})
	}
	return r
}

func TestWhichAgentIsAsked(t *testing.T) {
	for what, c := range map[string]struct {
		agent string
		names []string
		kind  script.Kind
		says  string
	}{
		"any":                     {"", []string{"good"}, "", ""},
		"one":                     {"good", []string{"silent", "good", "strict"}, "", ""},
		"nobody":                  {"", nil, script.Unavailable, "no agent that follows tenant acme is connected"},
		"one that is not there":   {"gone", []string{"good"}, script.NotFound, "no agent with the name"},
		"an older one":            {"older", []string{"older", "good"}, script.Unavailable, "too old"},
		"one of before queries":   {"ancient", []string{"!ancient", "good"}, script.Unavailable, "too old"},
		"any of older ones":       {"", []string{"older1", "older2"}, script.Unavailable, "too old"},
		"any, all before queries": {"", []string{"!ancient"}, script.Unavailable, "too old"},
		"a silent one":            {"silent", []string{"silent"}, script.Unavailable, "PREFIX.content"},
		"one that leaves":         {"gone", []string{"gone"}, script.Unavailable, "has left"},
		"one that refuses":        {"strict", []string{"strict", "good"}, script.Denied, "nobody signed it"},
		"one that says nothing":   {"mute", []string{"mute"}, script.Unavailable, "does not say"},
		"others after refusals":   {"", []string{"strict1", "older1", "older2", "good"}, "", ""},
	} {
		a := &agents{t: t}
		found, err := tryout.Run(t.Context(), a, request(c.agent, c.names...))
		if script.KindOf(err) != c.kind || err != nil && !strings.Contains(err.Error(), c.says) || err == nil && (found.Agent != "good" || len(found.Results) != 1) {
			t.Errorf("%s: %+v, %v", what, found, err)
		}
	}
}

// TestEachAgentIsNoted: nobody is asked whose name the audit trail does not have, and at most five are.
func TestEachAgentIsNoted(t *testing.T) {
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint("older", i))
	}
	var noted []string
	a, r := &agents{t: t}, request("", names...)
	r.Note = func(agent string) error {
		noted = append(noted, agent)
		return nil
	}
	if _, err := tryout.Run(t.Context(), a, r); script.KindOf(err) != script.Unavailable || len(a.asked) != 5 || !slices.Equal(a.asked, noted) {
		t.Errorf("asked are %v, noted %v: %v", a.asked, noted, err)
	}
	fault := errors.New("etcd is gone")
	a, r = &agents{t: t}, request("", "good")
	r.Note = func(string) error { return fault }
	if _, err := tryout.Run(t.Context(), a, r); !errors.Is(err, fault) || len(a.asked) > 0 {
		t.Errorf("asked are %v: %v", a.asked, err)
	}
}

// TestAnAgentThatLies sends more than was asked for, and what is no JSON.
func TestAnAgentThatLies(t *testing.T) {
	found, err := tryout.Run(t.Context(), &agents{t: t}, request("", "liar"))
	if err != nil || len(found.Results) != 2 {
		t.Fatalf("%+v, %v", found, err)
	}
	r := found.Results[0]
	if len(r.GetResults()) > 0 || !r.GetTruncated() || len(r.GetTest().GetDifferences()) != 20 || !r.GetTest().GetMoreDifferences() {
		t.Errorf("what is no JSON: %v", r)
	}
	if len(r.GetLogs()) != 100 || r.GetDroppedLogs() != 900 {
		t.Errorf("%d lines, and %d that were left out", len(r.GetLogs()), r.GetDroppedLogs())
	}
	if stack := r.GetError().GetStack(); len(stack) > script.MaxFrames || len(stack[0].GetFunction()) > script.MaxFunctionBytes {
		t.Errorf("a stack of %d frames", len(stack))
	}
}

func TestWhatIsTooLarge(t *testing.T) {
	r := request("", "good")
	r.Script.Source = make([]byte, query.MaxContent)
	if _, err := tryout.Run(t.Context(), &agents{t: t}, r); script.KindOf(err) != script.Limit {
		t.Errorf("a large script: %v", err)
	}
}
