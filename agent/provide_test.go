package agent_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/agent"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/engine"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
)

// asking is an engine whose programs ask the agent for everything that it lends.
type asking struct{ echo }

func (asking) Compile(src engine.Source) (engine.Program, error) { return askingProgram(src.Code), nil }

type askingProgram string

func (p askingProgram) Run(_ context.Context, inv *engine.Invocation, res *engine.Result) error {
	inv.Host.Log(inv, engine.Warn, string(p))
	value, _, err := inv.Host.Value(inv.Tenant, "flags")
	if err != nil {
		return err
	}
	n, err := inv.Host.Count(inv.Tenant, "calls", 1)
	if err != nil {
		return err
	}
	return res.Append(func(dst []byte) ([]byte, error) { return fmt.Appendf(dst, "%s %v", value, n), nil })
}

func (p askingProgram) OnResponse() bool { return false }

func (p askingProgram) Size() int { return len(p) }

func (askingProgram) Close() {}

// TestWhatIsLent runs a script that uses what the agent lends, and reads along with what
// it logs, as the registry does.
func TestWhatIsLent(t *testing.T) {
	r := newRegistry(t)
	r.put("acme/flags", "on")
	r.put("other/flags", "theirs")
	r.publish("edge", "hello")
	r.start()
	n := startNode(t, r, t.TempDir(), func(c *agent.Config) { c.Engines = []engine.Engine{asking{}} })
	n.answers(t, r, "acme/edge", "on 1")

	logs, err := r.conn.SubscribeSync(subjects.AllLogs())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	call := &gateway.Call{Script: "acme/edge", Traceparent: "00-" + traceID + "-00f067aa0ba902b7-01"}
	var said eventv1.Logs
	eventually(t, r, "what it logs comes in", func() bool {
		r.send(subjects.Tail(), &eventv1.Tail{
			Fleet: "f", Tenant: "acme", Name: "edge", SentAt: timestamppb.Now(), Lasts: durationpb.New(time.Minute),
		})
		var reply gateway.Reply
		if err := n.Executor().Execute(t.Context(), call, &reply); err != nil {
			t.Fatal(err)
		}
		msg, err := logs.NextMsg(500 * time.Millisecond)
		if err != nil {
			return false
		}
		if msg.Subject != subjects.Logs("node-1") {
			t.Errorf("lines come on %s", msg.Subject)
		}
		if err := seal.OpenLogs(msg.Data, &said); err != nil {
			t.Fatal(err)
		}
		return true
	})
	if said.GetFleet() != "f" || said.GetAgent() != "node-1" || len(said.GetLines()) == 0 {
		t.Fatalf("it says %v", &said)
	}
	line := said.GetLines()[0]
	if line.GetTenant() != "acme" || line.GetName() != "edge" || line.GetVersion() != 1 || line.GetLevel() != "warn" ||
		line.GetMessage() != "hello" || line.GetTraceId() != traceID {
		t.Errorf("line %v", line)
	}
}
