package rego

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// perExpression is what the evaluation of an expression costs, in instructions.
	perExpression = 10
	// lookEvery is how many instructions lie between two looks at the clock.
	lookEvery = 32 * perExpression
	// breatheEvery is how many instructions lie between two breaths; see engine.Turn.
	breatheEvery = 4096 * perExpression
)

// meter bounds a call in the interpreter. It is the topdown.Cancel of the call: the evaluator asks before each expression
// whether the call has been cancelled, and so counts them. It belongs to the goroutine of the call.
type meter struct {
	ctx      context.Context
	deadline time.Time
	turn     engine.Turn
	asked    atomic.Bool

	used, limit uint64
	look        uint64 // when used is more, the clock is looked at
	breathe     uint64
	stopped     *script.Error
}

func (m *meter) begin(ctx context.Context, inv *engine.Invocation, limits script.Limits) {
	m.ctx, m.deadline, m.limit = ctx, time.Now().Add(limits.Timeout), limits.Instructions
	m.look, m.breathe = lookEvery, breatheEvery
	if m.turn = inv.Turn; m.turn != nil {
		m.turn.Bind(func() { m.asked.Store(true) })
	}
}

// Cancel is topdown.Cancel's.
func (m *meter) Cancel() { m.asked.Store(true) }

// Cancelled is topdown.Cancel's.
func (m *meter) Cancelled() bool { return !m.pay(perExpression) }

// pay counts instructions and reports whether the call may go on.
func (m *meter) pay(instructions uint64) bool {
	m.used += instructions
	if m.used >= m.look || m.stopped != nil || m.asked.Load() {
		return m.check()
	}
	return m.used <= m.limit || m.check()
}

// check looks at all bounds.
func (m *meter) check() bool {
	if m.stopped != nil {
		return false
	}
	if m.turn != nil {
		if m.asked.Swap(false) {
			m.turn.Yield()
		}
		if m.used >= m.breathe {
			m.breathe = m.used + breatheEvery
			m.turn.Breathe()
		}
	}
	m.look = m.used + lookEvery
	switch {
	case m.used > m.limit:
		m.stopped = script.Errorf(script.Limit, "", "the policy used more than %d instructions; each expression counts as %d", m.limit, perExpression)
	case m.ctx.Err() != nil:
		m.stopped = late(m.ctx.Err())
	case time.Now().After(m.deadline):
		m.stopped = script.Errorf(script.Timeout, "", "the call took longer than its timeout")
	}
	return m.stopped == nil
}

// late is for a call whose context has ended, because of cause.
func late(cause error) *script.Error {
	message := "the call's time ran out"
	if errors.Is(cause, context.Canceled) {
		message = "the caller gave up"
	}
	return &script.Error{Kind: script.Timeout, Message: message, Err: cause}
}
