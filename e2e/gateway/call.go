package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/e2e/sight"
	"github.com/scriptorium-dev/scriptorium/script"
)

// caller calls a script, one call after the other.
type caller struct {
	client   *agentclient.Client
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
	result, err := c.client.Call(ctx, c.script, map[string]any{"method": "GET", "path": "/"})
	took := time.Since(start)
	if ctx.Err() != nil {
		return sight.State{}, false
	}
	if err == nil {
		c.seen.Answered(c.script, took)
		return sight.State{Content: text(result.Values), Version: result.Version}, true
	}
	kind := "OTHER"
	if e, ok := errors.AsType[*script.Error](err); ok {
		kind = string(e.Kind)
	}
	c.seen.Failed(c.script, kind, err.Error())
	return sight.State{Failure: kind}, true
}

// text returns the script's one answer as text.
func text(values []json.RawMessage) string {
	if len(values) == 0 {
		return ""
	}
	var s string
	if err := json.Unmarshal(values[0], &s); err == nil {
		return s
	}
	return string(values[0])
}
