package fanout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fanout"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestRecall: eight agents are asked however many there are, and answers of others, or to
// something else, do not count.
func TestRecall(t *testing.T) {
	n := startNATS(t, embedded.NATSConfig{})
	f := connect(t, n.URL(), make(chan fleet.Report, 1))
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprint("n", i)
	}
	copies := fanout.NewCopies(f, func() string { return "f" }, func(tenant string) []string {
		if tenant != "acme" {
			return nil
		}
		return slices.Clone(names)
	})
	agent := listen(t, n.URL())
	keys := []string{"values/acme/flag", "tenants/acme"}
	asked := make(chan *eventv1.Recall, 1)
	if _, err := agent.nc.Subscribe("test.recall", func(msg *nats.Msg) {
		var m eventv1.Recall
		if _, err := keyring.Open(msg.Data, &m); err != nil {
			t.Error(err)
		}
		send := func(name string, change func(*eventv1.Copy)) {
			c := &eventv1.Copy{Fleet: m.GetFleet(), Id: m.GetId(), Agent: name, Key: keys[0], Content: []byte("bad")}
			change(c)
			data, err := seal.SealCopy(c)
			if err := errors.Join(err, agent.nc.Publish("test.copies."+name, data)); err != nil {
				t.Error(err)
			}
		}
		one := m.GetAgents()[0]
		stranger := slices.IndexFunc(names, func(name string) bool { return !slices.Contains(m.GetAgents(), name) })
		send(one, func(c *eventv1.Copy) { c.Id = "another" })
		send(one, func(c *eventv1.Copy) { c.Fleet = "another" })
		send(one, func(c *eventv1.Copy) { c.Agent = m.GetAgents()[1] })
		send(names[stranger], func(*eventv1.Copy) {})
		if err := agent.nc.Publish("test.copies."+one, []byte("rubbish")); err != nil {
			t.Error(err)
		}
		send(one, func(c *eventv1.Copy) { c.Content = []byte("good") })
		send(one, func(c *eventv1.Copy) { c.Key, c.Content, c.Problem = keys[1], nil, "too large" })
		asked <- &m
	}); err != nil {
		t.Fatal(err)
	}
	if err := agent.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	var got []string
	k, of, err := copies.Recall(t.Context(), "acme", keys, func(c registry.Copy) bool {
		got = append(got, fmt.Sprintf("%s %s %s", c.Key, c.Content, c.Problem))
		return len(got) == 2
	})
	if want := []string{"values/acme/flag good ", "tenants/acme  too large"}; err != nil || k != 8 || of != 100 || !slices.Equal(got, want) {
		t.Errorf("%d of %d agents answer %q, %v; want %q", k, of, got, err, want)
	}
	if m := <-asked; len(m.GetAgents()) != 8 || m.GetFleet() != "f" || m.GetId() == "" || !slices.Equal(m.GetKeys(), keys) || m.GetSentAt() == nil {
		t.Errorf("they are asked %v", m)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, _, err := copies.Recall(ctx, "acme", keys, func(registry.Copy) bool {
		cancel()
		return false
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("whoever asks is gone: %v", err)
	}
	<-asked // the handler uses t
	if k, of, err := copies.Recall(t.Context(), "other", keys, nil); k != 0 || of != 0 || err != nil {
		t.Errorf("without agents: %d of %d, %v", k, of, err)
	}
	f.Close()
	if _, _, err := copies.Recall(t.Context(), "acme", keys, nil); script.KindOf(err) != script.Unavailable {
		t.Errorf("without NATS: %v", err)
	}
}
