package fanout

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/types/known/timestamppb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// recallAgents are asked at once, however large the fleet is.
	recallAgents = 8
	// recallWait bounds the wait for their copies, with their delays of up to 200 ms each.
	recallWait = 2 * time.Second
	// maxPendingCopies bounds the bytes that wait to be read.
	maxPendingCopies = 64 << 20
)

// Copies asks agents over NATS for what the store has lost. It is safe for concurrent use.
type Copies struct {
	fan    *Fanout
	fleet  func() string
	agents func(tenant string) []string
}

var _ registry.Copies = (*Copies)(nil)

// NewCopies returns the Copies of the fleet over the connection of f. agents returns the
// names of the connected agents that follow the tenant.
func NewCopies(f *Fanout, fleetID func() string, agents func(tenant string) []string) *Copies {
	return &Copies{fan: f, fleet: fleetID, agents: agents}
}

// Recall implements registry.Copies.
func (c *Copies) Recall(ctx context.Context, tenant string, keys []string, take func(registry.Copy) (done bool)) (asked, of int, err error) {
	names := c.agents(tenant)
	mathrand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	of = len(names)
	names = names[:min(of, recallAgents)]
	if !c.fan.Connected() {
		return 0, of, script.Errorf(script.Unavailable, "", "this registry is not connected to NATS")
	}
	if of == 0 {
		return 0, 0, nil
	}
	sub, err := c.fan.nc.SubscribeSync(c.fan.subjects.AllCopies())
	if err != nil {
		return 0, of, script.Errorf(script.Unavailable, "", "subscribe to %s: %w", c.fan.subjects.AllCopies(), err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only if it is over anyhow
	if err := sub.SetPendingLimits(-1, maxPendingCopies); err != nil {
		return 0, of, script.Errorf(script.Internal, "", "set the limits of the subscription: %w", err)
	}
	m := &eventv1.Recall{Fleet: c.fleet(), Id: rand.Text(), Agents: names, Keys: keys, SentAt: timestamppb.Now()}
	if err := c.fan.publish(ctx, c.fan.subjects.Recall(), m); err != nil {
		return 0, of, script.Errorf(script.Unavailable, "", "publish to %s: %w", c.fan.subjects.Recall(), err)
	}
	wait, cancel := context.WithTimeout(ctx, recallWait)
	defer cancel()
	for {
		msg, err := sub.NextMsgWithContext(wait)
		if errors.Is(err, nats.ErrSlowConsumer) { // some were lost
			continue
		}
		if err != nil {
			return len(names), of, ctx.Err()
		}
		if copied, ok := c.read(msg, m); ok && take(copied) {
			return len(names), of, nil
		}
	}
}

// read reads an answer to m; ok is false if it is none, or of an agent that was not asked.
func (c *Copies) read(msg *nats.Msg, m *eventv1.Recall) (copied registry.Copy, ok bool) {
	agent := strings.TrimPrefix(msg.Subject, c.fan.subjects.Copies(""))
	var got eventv1.Copy
	if err := seal.OpenCopy(msg.Data, &got); err != nil || got.GetAgent() != agent || got.GetId() != m.GetId() || got.GetFleet() != m.GetFleet() ||
		!slices.Contains(m.GetAgents(), agent) {
		return copied, false
	}
	return registry.Copy{Agent: agent, Key: got.GetKey(), Content: got.GetContent(), Problem: got.GetProblem()}, true
}
