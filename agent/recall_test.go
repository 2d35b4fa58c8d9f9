package agent_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/agent"
	"github.com/scriptorium-dev/scriptorium/agent/follow"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestCopies: the agent sends what it has on disk of what the registry asks for, as the
// registry has sealed it, and says if NATS takes no message of that size.
func TestCopies(t *testing.T) {
	r := newRegistry(t)
	r.put("acme/flags", "on")
	large := bytes.Repeat([]byte("x"), script.MaxValueBytes)
	r.put("acme/large", string(large))
	r.configure("acme", script.TenantSettings{Concurrency: 3})
	r.publish("edge", "hello")
	r.start()
	n := startNode(t, r, t.TempDir())
	n.answers(t, r, "acme/edge", "hello")

	copies, err := r.conn.SubscribeSync(subjects.AllCopies())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	source, content := wire.SourceKey(script.DigestOf([]byte("hello"))), wire.SourceKey(script.DigestOf(large))
	recall := &eventv1.Recall{Fleet: "f", Id: "one", Agents: []string{"node-1"}, SentAt: timestamppb.Now(), Keys: []string{
		"tenants/acme", "tenants/other", "values/acme/flags", "values/acme/../flags", "releases/acme/edge", "releases/acme/none",
		wire.SourceKey(script.DigestOf([]byte("another"))), "sources/garbage", source, content,
	}}
	begun := time.Now()
	r.send(subjects.Recall(), recall)
	r.send(subjects.Recall(), recall) // and once only
	for _, key := range []string{"tenants/acme", "values/acme/flags", "releases/acme/edge", source, content} {
		m := nextCopy(t, copies)
		if m.GetFleet() != "f" || m.GetId() != "one" || m.GetAgent() != "node-1" || m.GetKey() != key || (m.GetProblem() != "") != (key == content) {
			t.Errorf("%s: %.300v", key, m)
		}
		if _, ok := wire.ToSourceKey(key); ok {
			if want := map[string]string{source: "hello", content: ""}[key]; string(m.GetContent()) != want {
				t.Errorf("%s has the content %.100q", key, m.GetContent())
			}
			continue
		}
		var e eventv1.Entry
		if _, err := seal.Unpack(m.GetContent(), &e); err != nil || e.GetFleet() != "f" || e.GetObject().GetKey() != key {
			t.Errorf("%s: %v, %v", key, &e, err)
		}
	}
	r.send(subjects.Recall(), &eventv1.Recall{Fleet: "f", Id: "two", Agents: []string{"node-1"}, SentAt: timestamppb.Now(), Keys: []string{source}})
	if m := nextCopy(t, copies); m.GetId() != "two" {
		t.Errorf("a replayed recall is answered: %.300v", m)
	}
	if took := time.Since(begun); took < 2*agent.RecallDelay {
		t.Errorf("two recalls are answered within %v", took)
	}
}

// TestRecallsThatWait: there is a bound to how many do.
func TestRecallsThatWait(t *testing.T) {
	a := openNode(t, newRegistry(t), t.TempDir()) // it does not run, so nothing answers
	for range 100 {
		a.Recall(follow.Recall{ID: "one"})
	}
	if got := a.RecallsThatWait(); got != 4 {
		t.Errorf("%d recalls wait", got)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// nextCopy returns the next copy that an agent sends.
func nextCopy(t *testing.T, copies *nats.Subscription) *eventv1.Copy {
	t.Helper()
	msg, err := copies.NextMsg(20 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	m := &eventv1.Copy{}
	if err := seal.OpenCopy(msg.Data, m); err != nil {
		t.Fatal(err)
	}
	return m
}
