// Package tryout runs scripts that are not published, for authors who try them on an agent before they publish. It keeps
// nothing of them. The agent uses it for tenants in its own process, and the process of a tenant for its own.
package tryout

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/agent/execute"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
	"github.com/scriptorium-dev/scriptorium/script/expect"
)

// Bounds of what is run, and of what comes of it.
const (
	MaxCalls      = 50
	MaxScriptSize = 8 << 20 // bytes of a TryScript
	// MaxAnswer bounds an Answer, in bytes.
	MaxAnswer = 2 << 20
	// maxResults bounds the results of one call, in bytes: a part of an answer has room for them.
	maxResults = 128 << 10
	// leastResult is what each call has room for, whatever those before it returned: its error and its test.
	leastResult = 16 << 10
	maxMessage  = 2 << 10 // of an error
)

// Where a script ran.
const (
	Shared  = "shared"
	Process = string(script.IsolationProcess)
)

// Answer is what came of a script.
type Answer struct {
	Run     *eventv1.TryRun
	Results []*eventv1.TryResult // of calls, and then of tests; fewer if the time was over
}

// Executor compiles and runs programs.
type Executor interface {
	Unpublished(ctx context.Context, name script.Name, e *script.Edition) (*execute.Unpublished, error)
}

// Run runs the calls and the tests of the script one after the other, until ctx is done. An error means that it is no script
// to try, or that the agent has no room for it now; that it does not compile is in the answer.
func Run(ctx context.Context, x Executor, m *eventv1.TryScript) (*Answer, error) {
	name, edition, err := read(m)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	program, err := x.Unpublished(ctx, name, edition)
	switch script.KindOf(err) {
	case "":
	case script.Script, script.Limit, script.Invalid:
		return &Answer{Run: &eventv1.TryRun{CompileError: errorOf(err), CompileTook: durationpb.New(time.Since(began))}}, nil
	default:
		return nil, err
	}
	defer program.Close()
	a := &Answer{Run: &eventv1.TryRun{CompileTook: durationpb.New(time.Since(began)), Limits: wire.FromLimits(program.Limits())}}
	var tests []script.Test
	if m.GetTests() {
		tests = edition.Spec.Tests
	}
	room := MaxAnswer - leastResult*(len(m.GetCalls())+len(tests))
	for _, c := range m.GetCalls() {
		a.add(ctx, program, argsOf(c), nil, &room)
	}
	for i := range tests {
		a.add(ctx, program, [][]byte{expect.Argument(tests[i])}, &tests[i], &room)
	}
	return a, nil
}

// argsOf returns the arguments of the call.
func argsOf(c *eventv1.TryCall) [][]byte {
	if len(c.GetArgs()) == 0 {
		return [][]byte{[]byte("{}")}
	}
	return c.GetArgs()
}

// read reads a script. The registry has validated it; what is checked here is what the agent relies on.
func read(m *eventv1.TryScript) (script.Name, *script.Edition, error) {
	name := script.Name{Tenant: m.GetTenant(), Script: m.GetName()}
	settings, err := wire.ToSettings(m.GetSettings())
	switch {
	case err != nil:
		return name, nil, err
	case name.Validate() != nil:
		return name, nil, name.Validate()
	case len(m.GetCalls()) > MaxCalls:
		return name, nil, script.Errorf(script.Invalid, "calls", "are %d, at most %d are run", len(m.GetCalls()), MaxCalls)
	case len(m.GetSource()) > script.MaxSource(m.GetEngine(), m.GetSource()):
		return name, nil, script.Errorf(script.Invalid, "source", "has %d bytes, which is more than a registry stores", len(m.GetSource()))
	case settings.Library:
		return name, nil, script.IsLibrary(name)
	}
	for _, check := range []error{settings.Limits.Validate("settings.limits"), script.ValidateTests("settings.tests", settings.Tests)} {
		if check != nil {
			return name, nil, check
		}
	}
	return name, &script.Edition{
		Version: script.Version{Engine: m.GetEngine(), Entrypoint: m.GetEntrypoint()}, Spec: settings.Spec, Source: m.GetSource(),
	}, nil
}

// add runs the program, if there is time, and adds what came of it. Room is the bytes that the answer has left.
func (a *Answer) add(ctx context.Context, program *execute.Unpublished, args [][]byte, test *script.Test, room *int) {
	if ctx.Err() != nil {
		return
	}
	call := program.Call(ctx, args)
	if ctx.Err() != nil && call.Err != nil {
		return // it ended because the time was over
	}
	m := &eventv1.TryResult{
		Error: errorOf(call.Err), DroppedLogs: call.Dropped, Instructions: call.Used.Instructions, AllocatedBytes: call.Used.Allocated,
		Took: durationpb.New(call.Ran),
	}
	if test != nil {
		m.Test = judge(test, call)
	}
	for i, l := range call.Logs {
		line := &eventv1.TryLog{Time: timestamppb.New(l.Time), Level: string(l.Level), Message: l.Message}
		if *room -= proto.Size(line); *room < 0 {
			m.DroppedLogs += uint64(len(call.Logs) - i)
			break
		}
		m.Logs = append(m.Logs, line)
	}
	if size := call.Result.Bytes(); size > maxResults || size > *room {
		m.Truncated = true
	} else {
		*room -= size
		for i := range call.Result.Len() {
			m.Results = append(m.Results, call.Result.Value(i))
		}
	}
	a.Results = append(a.Results, m)
}

// errorOf returns the error with its stack, and bounded texts.
func errorOf(err error) *scriptError {
	m := wire.FromCallError(err)
	if m != nil {
		m.Message, m.Field = script.CutText(m.GetMessage(), maxMessage), script.CutText(m.GetField(), maxMessage)
	}
	return m
}
