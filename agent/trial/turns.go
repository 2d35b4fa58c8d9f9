package trial

import "context"

// turns says which attempt goes on next: tenants take turns, and of each the attempts go on
// in their order, one at a time. So a tenant whose tests take long, or never end, holds up
// its own alone, as long as there is a place for one more.
type turns struct {
	queues map[string][]*attempt // that wait, by tenant; none is empty
	busy   map[string]bool       // tenants of which one goes on
	order  []string              // tenants that wait for their turn: they have a queue, and are not busy
}

func newTurns() turns { return turns{queues: map[string][]*attempt{}, busy: map[string]bool{}} }

// put has the attempt wait behind the others of its tenant.
func (t *turns) put(a *attempt) { t.queue(a.Script.Tenant, append(t.queues[a.Script.Tenant], a)) }

// putFirst has it wait before them.
func (t *turns) putFirst(a *attempt) {
	t.queue(a.Script.Tenant, append([]*attempt{a}, t.queues[a.Script.Tenant]...))
}

func (t *turns) queue(tenant string, with []*attempt) {
	if len(t.queues[tenant]) == 0 && !t.busy[tenant] {
		t.order = append(t.order, tenant)
	}
	t.queues[tenant] = with
}

// take returns an attempt that goes on until leave is called for its tenant; nil if none
// can.
func (t *turns) take() *attempt {
	for len(t.order) > 0 {
		tenant := t.order[0]
		t.order = t.order[1:]
		queue := t.queues[tenant]
		for len(queue) > 0 && queue[0].over {
			queue = queue[1:]
		}
		if len(queue) == 0 {
			delete(t.queues, tenant)
			continue
		}
		t.queues[tenant] = queue[1:]
		if len(queue) == 1 {
			delete(t.queues, tenant)
		}
		t.busy[tenant] = true
		return queue[0]
	}
	return nil
}

// leave lets another attempt of the tenant go on.
func (t *turns) leave(tenant string) {
	delete(t.busy, tenant)
	if len(t.queues[tenant]) > 0 {
		t.order = append(t.order, tenant)
	}
}

// enqueue lets the attempt go on as soon as it is its turn. t.mu is held.
func (t *Tester) enqueue(a *attempt) {
	t.turns.put(a)
	select {
	case t.queued <- struct{}{}:
	default: // all will look
	}
}

// next waits for the attempt whose turn it is; nil once ctx is done. Its context ends with
// the attempt, or when its turn does.
func (t *Tester) next(ctx context.Context) (*attempt, context.Context) {
	for {
		if a, within := t.dequeue(ctx); a != nil {
			return a, within
		}
		select {
		case <-t.queued:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

func (t *Tester) dequeue(ctx context.Context) (*attempt, context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil {
		return nil, nil
	}
	a := t.turns.take()
	if a == nil {
		return nil, nil
	}
	ctx, a.cancel = context.WithCancel(ctx)
	return a, ctx
}

// leave ends the attempt's turn. Who had it looks who goes on.
func (t *Tester) leave(a *attempt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a.cancel()
	t.turns.leave(a.Script.Tenant)
}
