// Package gatewaytest has an Executor made of Go functions, for the tests of
// what sits on one.
package gatewaytest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Func runs in place of a script: it returns the results, each a JSON value.
type Func func(ctx context.Context, call *gateway.Call) (results [][]byte, err error)

// Executor runs Funcs. It is safe for concurrent use.
type Executor struct {
	mu      sync.RWMutex
	scripts map[script.Ref]Func
	infos   map[script.Name]gateway.Script
	onError map[script.Ref]script.OnError
	// onResponse have the functions of all versions of a script.
	onResponse map[script.Name]Func
}

var _ gateway.Executor = (*Executor)(nil)

// Staleness is in every Position.
const Staleness = 412 * time.Millisecond

// Revision is in every Position.
const Revision script.Revision = 42

// New returns an Executor with these scripts of tenant acme:
//
//	echo     returns its arguments
//	nothing  returns nothing
//	fail     raises an error on line 3
//	wait     returns when ctx is done, with a Timeout
//	panic    panics
//	kind     fails with the kind that its argument, a JSON string, names
//	trace    returns the traceparent
func New() *Executor {
	e := &Executor{scripts: map[script.Ref]Func{}, infos: map[script.Name]gateway.Script{}, onError: map[script.Ref]script.OnError{}, onResponse: map[script.Name]Func{}}
	e.Set("acme/echo", echo)
	e.Set("acme/nothing", func(context.Context, *gateway.Call) ([][]byte, error) { return nil, nil })
	e.Set("acme/fail", func(context.Context, *gateway.Call) ([][]byte, error) {
		return nil, &script.Error{Kind: script.Script, Message: "it broke\r\nbadly", Line: 3}
	})
	e.Set("acme/wait", func(ctx context.Context, _ *gateway.Call) ([][]byte, error) {
		<-ctx.Done()
		return nil, script.Errorf(script.Timeout, "", "the call's time ran out")
	})
	e.Set("acme/panic", func(context.Context, *gateway.Call) ([][]byte, error) { panic("a bug") })
	e.Set("acme/kind", func(_ context.Context, call *gateway.Call) ([][]byte, error) {
		kind := script.Kind(call.Args[0][1 : len(call.Args[0])-1])
		return nil, script.Errorf(kind, "", "as asked for")
	})
	e.Set("acme/trace", func(_ context.Context, call *gateway.Call) ([][]byte, error) {
		return [][]byte{[]byte(`"` + call.Traceparent + `"`)}, nil
	})
	return e
}

func echo(_ context.Context, call *gateway.Call) ([][]byte, error) { return call.Args, nil }

// Key is a script that denies a request, and says in the body by which key: the one that the call
// names, and the one in the request's header X-User.
func Key(_ context.Context, call *gateway.Call) ([][]byte, error) {
	of := "no request"
	if call.Request != nil {
		of = call.Request.Key("request.headers.x-user")
	}
	return [][]byte{fmt.Appendf(nil, `{"allow":false,"body":"%s, %s"}`, call.KeyFrom(""), of)}, nil
}

// Set makes f the script, or the one version of it, that ref names; active
// scripts have version 7.
func (e *Executor) Set(ref string, f Func) {
	parsed, err := script.ParseRef(ref)
	if err != nil {
		panic(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.scripts[parsed] = f
	e.infos[parsed.Name] = gateway.Script{
		Name:     parsed.Name,
		Revision: Revision,
		Active:   script.Version{Number: 7, Digest: DigestOf(parsed.Name), Engine: "lua", Entrypoint: "handle"},
		Enabled:  true,
		Trigger:  script.Trigger{Event: "http-request"},
	}
}

// SetOnError sets what the script, or the one version of it, that ref names says of a call without a
// decision.
func (e *Executor) SetOnError(ref string, onError script.OnError) {
	parsed, err := script.ParseRef(ref)
	if err != nil {
		panic(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.onError[parsed] = onError
}

// SetOnResponse makes f the on_response of all versions of the script; nil takes it away.
func (e *Executor) SetOnResponse(name string, f Func) {
	parsed, err := script.ParseName(name)
	if err != nil {
		panic(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.onResponse[parsed] = f
}

// SetTrigger makes the script, which Set has made, one of the chain of an event.
func (e *Executor) SetTrigger(name string, trigger script.Trigger) {
	parsed, err := script.ParseName(name)
	if err != nil {
		panic(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	info := e.infos[parsed]
	info.Trigger = trigger
	e.infos[parsed] = info
}

// DigestOf is the digest of every version of the script.
func DigestOf(name script.Name) script.Digest { return script.DigestOf([]byte(name.String())) }

// Execute implements gateway.Executor.
func (e *Executor) Execute(ctx context.Context, call *gateway.Call, reply *gateway.Reply) error {
	reply.Reset()
	reply.Position = e.Position()
	ref, err := script.ParseRef(call.Script)
	if err != nil {
		return err
	}
	e.mu.RLock()
	f, ok := e.scripts[ref]
	onError, onResponse := e.onError[ref], e.onResponse[ref.Name]
	e.mu.RUnlock()
	if !ok && (!call.OnResponse || onResponse == nil) {
		return script.Errorf(script.NotFound, "script", "there is no %s", ref)
	}
	reply.Version, reply.Digest = cmp.Or(ref.Version, 7), DigestOf(ref.Name)
	reply.OnError, reply.OnResponse = onError, onResponse != nil
	if call.OnResponse {
		if f = onResponse; f == nil {
			return nil
		}
	}
	results, err := f(ctx, call)
	if err != nil {
		return err
	}
	for _, result := range results {
		if err := reply.Append(func(dst []byte) ([]byte, error) { return append(dst, result...), nil }); err != nil {
			return err
		}
	}
	return nil
}

// Chain implements gateway.Executor.
func (e *Executor) Chain(dst []gateway.Link, tenant, event string, attributes *script.Attributes, _ *gateway.Call) ([]gateway.Link, error) {
	all := e.List()
	slices.SortStableFunc(all, func(a, b gateway.Script) int { return cmp.Compare(b.Trigger.Priority, a.Trigger.Priority) })
	known := false
	for _, s := range all {
		if s.Name.Tenant != tenant || s.Trigger.Event != event {
			continue
		}
		known = true
		if s.Trigger.Match.Matches(attributes) {
			dst = append(dst, gateway.Link{Script: s.Name, Version: s.Active.Number, Edition: s.Name})
		}
	}
	if !known {
		return dst, script.Errorf(script.NotFound, "event", "there is no %s", event)
	}
	return dst, nil
}

// List implements gateway.Executor.
func (e *Executor) List() []gateway.Script {
	e.mu.RLock()
	defer e.mu.RUnlock()
	list := make([]gateway.Script, 0, len(e.infos))
	for _, info := range e.infos {
		list = append(list, info)
	}
	slices.SortFunc(list, func(a, b gateway.Script) int {
		return cmp.Or(cmp.Compare(a.Name.Tenant, b.Name.Tenant), cmp.Compare(a.Name.Script, b.Name.Script))
	})
	return list
}

// Position implements gateway.Executor.
func (e *Executor) Position() gateway.Position {
	return gateway.Position{Revision: Revision, Staleness: Staleness}
}
