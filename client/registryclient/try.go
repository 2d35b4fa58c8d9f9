package registryclient

import (
	"context"
	"encoding/json"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
	"github.com/scriptorium-dev/scriptorium/script/jsonvalue"
)

// TryRequest says which script to run on an agent, without publishing it.
type TryRequest struct {
	Name       script.Name      // that it would have
	Source     []byte           // nil if Settings have an Artifact
	Engine     string           // "" means lua
	Entrypoint *string          // nil means handle; "" means that the chunk itself is the program
	Settings   *script.Settings // nil for the defaults
	// Calls have one argument each at least; at most 50 calls.
	Calls [][]json.RawMessage
	Tests bool   // run the tests of the settings, too
	Agent string // any agent that follows the tenant if empty
	// Timeout for all calls and tests together, at most a minute; 20 s if 0.
	Timeout time.Duration
}

// Tried is what came of a script that is not published.
type Tried struct {
	// Agent where it ran; "" if it does not compile, so that no agent was asked.
	Agent string
	// Err says why it cannot be published, with its place: no call ran then. It is a *script.Error, or nil.
	Err error
	// Calls and Tests are in the order of the request. Those that the time was too short for are missing.
	Calls, Tests []TriedCall
	CompileTook  time.Duration
	Limits       script.Limits // that bounded each call
	Isolation    string        // "process" if it ran in the process of its tenant, else "shared"
	Libraries    []script.Library
}

// TriedCall is what came of one call.
type TriedCall struct {
	Results []json.RawMessage
	// Truncated: the call returned more than the agent sends.
	Truncated    bool
	Err          error // a *script.Error with its stack, or nil
	Logs         []TriedLog
	DroppedLogs  uint64
	Instructions uint64
	Allocated    uint64        // bytes, those that the call dropped included
	Took         time.Duration // on a processor
	Test         *TriedTest    // nil for a call that is no test
}

// TriedLog is a line that the script logged.
type TriedLog struct {
	Time    time.Time
	Level   engine.Level
	Message string
}

// TriedTest is how a test ended.
type TriedTest struct {
	Name string
	// Err says why it failed; nil if it passed.
	Err error
	// Differences from what is expected. A long value is a text with its beginning.
	Differences []jsonvalue.Difference
	More        bool // there are others
}

// tryTakes is how long a registry may take, besides what it takes itself.
const tryTakes = 2 * time.Minute

// Try runs a script that is not published on one agent. Nothing of it is stored, and no gateway can call it.
func (c *Client) Try(ctx context.Context, req TryRequest) (Tried, error) {
	ctx, cancel := c.bounded(ctx, tryTakes)
	defer cancel()
	m := &registryv1.TryRequest{
		Tenant: req.Name.Tenant, Name: req.Name.Script, Source: req.Source, Engine: req.Engine, Entrypoint: req.Entrypoint,
		Tests: req.Tests, Agent: req.Agent, Timeout: orAbsent(req.Timeout),
	}
	if req.Settings != nil {
		m.Settings = wire.FromSettings(*req.Settings)
	}
	for _, args := range req.Calls {
		one := &eventv1.TryCall{}
		for _, arg := range args {
			one.Args = append(one.Args, arg)
		}
		m.Calls = append(m.Calls, one)
	}
	resp, err := c.registry.Try(ctx, m)
	if err != nil {
		return Tried{}, c.fault(ctx, err)
	}
	return toTried(resp)
}

func toTried(m *registryv1.TryResponse) (t Tried, err error) {
	t = Tried{
		Agent: m.GetAgent(), Err: errorOf(m.GetError()), Calls: toTriedCalls(m.GetCalls()), Tests: toTriedCalls(m.GetTests()),
		CompileTook: m.GetRun().GetCompileTook().AsDuration(), Isolation: m.GetRun().GetIsolation(),
	}
	if t.Limits, err = wire.ToLimits(m.GetRun().GetLimits()); err == nil {
		t.Libraries, err = wire.ToLibraries(m.GetLibraries())
	}
	if err != nil {
		return Tried{}, malformed(err)
	}
	return t, nil
}

func toTriedCalls(list []*eventv1.TryResult) (all []TriedCall) {
	for _, m := range list {
		c := TriedCall{
			Truncated: m.GetTruncated(), Err: errorOf(m.GetError()), DroppedLogs: m.GetDroppedLogs(), Instructions: m.GetInstructions(),
			Allocated: m.GetAllocatedBytes(), Took: m.GetTook().AsDuration(),
		}
		for _, r := range m.GetResults() {
			c.Results = append(c.Results, r)
		}
		for _, l := range m.GetLogs() {
			c.Logs = append(c.Logs, TriedLog{l.GetTime().AsTime(), engine.Level(l.GetLevel()), l.GetMessage()})
		}
		if t := m.GetTest(); t != nil {
			c.Test = &TriedTest{Name: t.GetName(), Err: errorOf(t.GetWhy()), More: t.GetMoreDifferences()}
			for _, d := range t.GetDifferences() {
				c.Test.Differences = append(c.Test.Differences, jsonvalue.Difference{Pointer: d.GetPath(), From: orNil(d.GetWant()), To: orNil(d.GetGot())})
			}
		}
		all = append(all, c)
	}
	return all
}

// orNil returns the JSON text; nil for none.
func orNil(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

// errorOf returns the error; nil for none.
func errorOf(m *scriptv1.Error) error {
	if m == nil {
		return nil
	}
	return wire.ToError(m)
}
