package sandbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Body is what a call does with its instance.
type Body func(c *Call, res *engine.Result) error

// Run gives body an instance of the module for one call of inv: a fresh one, or with reuse one of the
// tenant's that is as it was after Source.Initialize. An error leaves nothing in res. Run never panics.
func (m *Module) Run(ctx context.Context, inv *engine.Invocation, reuse bool, res *engine.Result, body Body) error {
	if ctx.Err() != nil {
		res.Reset()
		return lateError(ctx.Err())
	}
	asked := reuse
	// What is to be the same at each run, for example in a test, must not depend on the run that made the image.
	reuse = reuse && m.source.Module.Resettable && inv.Clock == nil && inv.Random == nil
	i := m.take(inv, reuse, reuse == asked)
	i.call.begin(ctx, m.sandbox, inv)
	err := i.run(reuse, res, body)
	if inv.Used != nil {
		*inv.Used = i.call.used()
	}
	i.call.closeAccount()
	if err != nil {
		res.Reset()
		i.drop()
		return err
	}
	i.call.end()
	if !m.give(i) {
		i.drop()
	}
	return nil
}

// lateError is for a call whose context has ended, because of cause, before it could begin.
func lateError(cause error) error {
	message := "the call's time ran out before it began"
	if errors.Is(cause, context.Canceled) {
		message = "the caller gave up before the call began"
	}
	return &script.Error{Kind: script.Timeout, Message: message, Err: cause}
}

// run is one call. Whatever happens in it ends in an error.
func (i *instance) run(reuse bool, res *engine.Result, body Body) (err error) {
	c := &i.call
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(stopped); ok && c.failure != nil { // body itself was stopped
				err = c.failure
				return
			}
			err = &script.Error{Kind: script.Internal, Message: "the script met a fault of the engine and was stopped", Err: fmt.Errorf("panic: %v", r)}
		}
	}()
	if err := i.prepare(reuse); err != nil {
		return err
	}
	return body(c, res)
}
