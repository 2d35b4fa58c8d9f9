package scripttest

import (
	"context"
	"fmt"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/internal/offline"
	"github.com/scriptorium-dev/scriptorium/script"
	"github.com/scriptorium-dev/scriptorium/script/expect"
	"github.com/scriptorium-dev/scriptorium/script/jsonvalue"
)

// decide has the script decide about the case's request as agents do it for gateways.
func (p *pending) decide(ctx context.Context, call *offline.Call) *Failure {
	request, err := decision.ParseRequest(p.test.Gateway)
	if err != nil {
		return &Failure{Message: fmt.Sprintf("what the gateway asks about is wrong: %v", err)}
	}
	run := decision.NewRun()
	defer run.Release()
	question := decision.Question{Target: decision.Target{Script: p.suite.Script.Name.String()}}
	decided, err := run.Decide(ctx, &executor{p, call}, &question, request)
	decided = run.Or(question.Fail, decided, err)
	text, documentErr := run.Document(&decided, err)
	if documentErr != nil {
		return &Failure{Message: documentErr.Error()}
	}
	got, decodeErr := jsonvalue.Decode(text)
	if decodeErr != nil { // impossible: it was just encoded
		return &Failure{Message: decodeErr.Error()}
	}
	f := &Failure{}
	f.compare(p.test.Decision, got, expect.Differences)
	if f.Message == "" && len(f.Differences) == 0 {
		return nil
	}
	if err != nil {
		f.add("no decision was made: %v", script.AsError(err))
		f.Err = p.located(err)
	}
	return f
}

// executor runs the calls of one decision.
type executor struct {
	pending *pending
	call    *offline.Call
}

var _ gateway.Executor = (*executor)(nil)

// Execute implements gateway.Executor.
func (x *executor) Execute(ctx context.Context, call *gateway.Call, reply *gateway.Reply) error {
	reply.Reset()
	reply.OnError = x.pending.suite.Script.Settings.OnError
	x.call.Args, x.call.OnResponse = call.Args, call.OnResponse
	return x.pending.program.Run(ctx, x.call, &reply.Result)
}

// Chain implements gateway.Executor. A case is about one script.
func (*executor) Chain([]gateway.Link, string, string, *script.Attributes, *gateway.Call) ([]gateway.Link, error) {
	return nil, script.Errorf(script.NotFound, "event", "a test has no events")
}

// List implements gateway.Executor.
func (*executor) List() []gateway.Script { return nil }

// Position implements gateway.Executor.
func (*executor) Position() gateway.Position { return gateway.Position{} }
