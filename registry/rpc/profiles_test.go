package rpc_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/registry/query"
	"github.com/scriptorium-dev/scriptorium/script"
)

// askProfile answers questions about profiles in the name of the agent n1, unless another is named.
func askProfile(q query.Question, take func(query.Part)) (query.Result, error) {
	say := func(m *eventv1.Answer) { take(query.Part{Agent: "n1", Answer: m}) }
	switch kind := q.Query.GetKind().(type) {
	case *eventv1.Query_ScriptProfile:
		say(&eventv1.Answer{Kind: &eventv1.Answer_ScriptProfile{ScriptProfile: &eventv1.ScriptProfile{
			Version: 7, Calls: 3, Frames: []*eventv1.ProfileFrame{{Builtin: secret}},
			Stacks: []*eventv1.ProfileStack{{Frames: []uint32{0}, Instructions: uint64(kind.ScriptProfile.GetDuration().GetSeconds())}},
		}}})
		say(&eventv1.Answer{Kind: &eventv1.Answer_ProfileSummary{ProfileSummary: &eventv1.ProfileSummary{Took: kind.ScriptProfile.GetDuration()}}})
	case *eventv1.Query_ProcessProfile:
		switch q.Agents[0] {
		case "busy":
			return query.Result{Failed: []query.Failure{{Agent: "busy", Err: &script.Error{Kind: script.Conflict, Message: "another one"}}}}, nil
		case "older":
			return query.Result{Older: q.Agents}, nil
		case "silent":
			return query.Result{Silent: q.Agents}, nil
		case "gone":
			return query.Result{}, nil
		}
		for range 3 {
			say(&eventv1.Answer{Kind: &eventv1.Answer_ProcessProfile{ProcessProfile: &eventv1.ProcessProfile{Data: make([]byte, 200<<10)}}})
		}
	}
	return query.Result{Answered: []string{"n1"}}, nil
}

func TestProfileScript(t *testing.T) {
	b := newBench(t)
	b.publish(t, "route", "one")
	stream, err := b.ProfileScript(t.Context(), &registryv1.ProfileScriptRequest{Tenant: "acme", Name: "route", Duration: durationpb.New(20 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	var got []*registryv1.ProfileScriptResponse
	for resp, err := stream.Recv(); !errors.Is(err, io.EOF); resp, err = stream.Recv() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, resp)
	}
	if len(got) != 4 || got[0].GetProfile() == "" || got[1].GetAgent() != "n1" || got[1].GetPart().GetStacks()[0].GetInstructions() != 20 ||
		got[2].GetAgent() != "n1" || got[2].GetSummary().GetTook().GetSeconds() != 20 || got[3].GetResult().GetAnswered() != 1 {
		t.Errorf("%v", got)
	}
	for _, test := range []struct {
		req  *registryv1.ProfileScriptRequest
		code codes.Code
	}{
		{&registryv1.ProfileScriptRequest{Tenant: "acme", Name: "never"}, codes.NotFound},
		{&registryv1.ProfileScriptRequest{Tenant: "acme"}, codes.InvalidArgument},
		{&registryv1.ProfileScriptRequest{Name: "route"}, codes.InvalidArgument},
		{&registryv1.ProfileScriptRequest{Tenant: "acme", Name: "route", Duration: durationpb.New(time.Hour)}, codes.InvalidArgument},
		{&registryv1.ProfileScriptRequest{Tenant: "acme", Name: "route", Duration: &durationpb.Duration{Seconds: 1, Nanos: -1}}, codes.InvalidArgument},
	} {
		stream, err := b.ProfileScript(t.Context(), test.req)
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != test.code {
			t.Errorf("%v: %v, want %v", test.req, err, test.code)
		}
	}
}

// TestFewAgentsProfile: a profile is not of a whole large fleet.
func TestFewAgentsProfile(t *testing.T) {
	b := newBench(t)
	b.publish(t, "route", "one")
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t", "u"} {
		b.hear(t, name, 1)
	}
	ask := func(agents ...string) error {
		stream, err := b.ProfileScript(t.Context(), &registryv1.ProfileScriptRequest{Tenant: "acme", Name: "route", Agents: agents})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	if err := ask(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("21 agents: %v", err)
	}
	if err := ask("[a-t]"); err != nil {
		t.Errorf("20 agents: %v", err)
	}
}

func TestProfileAgent(t *testing.T) {
	b := newBench(t)
	profile := func(req *registryv1.ProfileAgentRequest) (int, error) {
		stream, err := b.ProfileAgent(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		bytes := 0
		for {
			resp, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return bytes, nil
			}
			if err != nil {
				return bytes, err
			}
			bytes += len(resp.GetData())
		}
	}
	if n, err := profile(&registryv1.ProfileAgentRequest{Agent: "n1", Type: "cpu"}); n != 600<<10 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	for _, test := range []struct {
		agent, kind string
		code        codes.Code
	}{
		{"n1", "everything", codes.InvalidArgument},
		{"", "heap", codes.NotFound},
		{"n*", "heap", codes.NotFound},
		{"gone", "heap", codes.NotFound},
		{"busy", "heap", codes.FailedPrecondition},
		{"older", "heap", codes.Unavailable},
		{"silent", "heap", codes.Unavailable},
	} {
		if _, err := profile(&registryv1.ProfileAgentRequest{Agent: test.agent, Type: test.kind}); status.Code(err) != test.code {
			t.Errorf("%s of %q: %v, want %v", test.kind, test.agent, err, test.code)
		}
	}
	resp, err := b.Audit(t.Context(), &registryv1.AuditRequest{})
	if err != nil {
		t.Fatal(err)
	}
	notes := ""
	for _, e := range resp.GetEntries() {
		notes += e.GetChange() + " " + e.GetNote() + "\n"
	}
	const want = "profile agent silent: heap\nprofile agent older: heap\nprofile agent busy: heap\nprofile agent gone: heap\nprofile agent n*: heap\nprofile agent : heap\nprofile agent n1: cpu for 10s\n"
	if notes != want {
		t.Errorf("the audit trail has\n%s\nwant\n%s", notes, want)
	}
}
