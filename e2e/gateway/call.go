package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/scriptorium-dev/scriptorium/e2e/sight"
	"github.com/scriptorium-dev/scriptorium/script"
)

// request is the argument of each call.
const request = `{"method":"GET","path":"/"}`

// callee is a script as a caller reaches it. Only one call is made at a time.
type callee interface {
	// call returns what the script answered, and the version of it that did if the
	// protocol tells. An error of the agent is a *script.Error.
	call(ctx context.Context) (sight.State, error)
}

// caller calls a script, one call after the other.
type caller struct {
	callee   callee
	script   string
	interval time.Duration
	seen     *sight.Log
	// first says what it saw. One caller sees a change once; two could see the old
	// version after the new one, since their answers cross.
	first bool
}

func (c *caller) run(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		state, ok := c.call(ctx)
		if ok && c.first {
			c.seen.See(c.script, state, time.Now())
		}
		pause.Reset(c.interval)
	}
}

// call reports what a call found, and false if that says nothing since ctx is done.
func (c *caller) call(ctx context.Context) (sight.State, bool) {
	start := time.Now()
	state, err := c.callee.call(ctx)
	took := time.Since(start)
	if ctx.Err() != nil {
		return sight.State{}, false
	}
	if err == nil {
		c.seen.Answered(c.script, took)
		return state, true
	}
	kind := "OTHER"
	if e, ok := errors.AsType[*script.Error](err); ok {
		kind = string(e.Kind)
	}
	c.seen.Failed(c.script, kind, err.Error())
	return sight.State{Failure: kind}, true
}

// text returns a script's answer, a JSON value, as text.
func text(value []byte) string {
	var s string
	if len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &s) == nil {
		return s
	}
	return string(value)
}
