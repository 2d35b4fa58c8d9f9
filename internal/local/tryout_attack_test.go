package local_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/crypto/ssh"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// thief is on NATS, with all that registries may do there, and sees what they send.
type thief struct {
	*stack
	conn     *nats.Conn
	subjects wire.Subjects
	fleet    string
	answers  chan *eventv1.Answer
	seen     chan *nats.Msg  // queries and their content
	known    map[string]bool // ids of queries that the registry has sent
}

func (s *stack) thief() *thief {
	s.t.Helper()
	fleet, err := os.ReadFile(filepath.Join(s.dir, "fleet"))
	if err != nil {
		s.t.Fatal(err)
	}
	v := &thief{
		stack: s, conn: s.natsConn(), subjects: wire.Subjects{Prefix: wire.DefaultPrefix}, fleet: strings.TrimSpace(string(fleet)),
		answers: make(chan *eventv1.Answer, 100), seen: make(chan *nats.Msg, 100), known: map[string]bool{},
	}
	for subject, take := range map[string]func(*nats.Msg){
		v.subjects.AllAnswers(): func(msg *nats.Msg) {
			var m eventv1.Answer
			if _, err := seal.TrustEverything().Open(protocol2(msg.Data), &m); err == nil {
				v.answers <- &m
			}
		},
		v.subjects.Query():      func(msg *nats.Msg) { v.seen <- msg },
		v.subjects.Content(">"): func(msg *nats.Msg) { v.seen <- msg },
	} {
		if _, err := v.conn.Subscribe(subject, take); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := v.conn.Flush(); err != nil {
		s.t.Fatal(err)
	}
	return v
}

// protocol2 returns the envelope of an answer as one that a Keyring opens.
func protocol2(data []byte) []byte {
	var env eventv1.Envelope
	if proto.Unmarshal(data, &env) != nil {
		return nil
	}
	env.Protocol = seal.Protocol
	data, _ = proto.Marshal(&env)
	return data
}

// query returns a query that has the agent try a script, and its content.
func (v *thief) query(id, agent, incarnation string) (*eventv1.Query, *eventv1.QueryContent) {
	v.t.Helper()
	content, err := proto.Marshal(&eventv1.TryScript{
		Tenant: "acme", Name: "stolen", Engine: script.EngineLua, Entrypoint: "handle", Source: []byte("function handle() return 'ran' end"), Calls: []*eventv1.TryCall{{}},
	})
	if err != nil {
		v.t.Fatal(err)
	}
	digest, now := sha256.Sum256(content), timestamppb.Now()
	q := &eventv1.Query{
		Fleet: v.fleet, Id: id, Agents: []string{agent}, Tenant: "acme", SentAt: now, Timeout: durationpb.New(patience), MaxBytes: 1 << 20,
		Kind: &eventv1.Query_Try{Try: &eventv1.TryQuery{Incarnation: incarnation, Digest: digest[:], Size: int64(len(content)), Timeout: durationpb.New(patience)}},
	}
	return q, &eventv1.QueryContent{Fleet: v.fleet, Id: id, Agent: agent, Last: true, Data: content, SentAt: now}
}

// send publishes both, sealed.
func (v *thief) send(sealer *seal.Sealer, q *eventv1.Query, c *eventv1.QueryContent) {
	v.t.Helper()
	for subject, m := range map[string]proto.Message{v.subjects.Content(c.GetAgent()): c, v.subjects.Query(): q} {
		data, err := sealer.Seal(m)
		if err == nil {
			err = v.conn.Publish(subject, data)
		}
		if err != nil {
			v.t.Fatal(err)
		}
	}
}

// next returns the next answer to the query, whatever others come before.
func (v *thief) next(id string) *eventv1.Answer {
	v.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case m := <-v.answers:
			if m.GetId() == id {
				return m
			}
			if strings.HasPrefix(m.GetId(), "forged") {
				v.t.Errorf("an agent answers %s: %v", m.GetId(), m)
			}
		case <-timeout:
			v.t.Fatalf("no answer to %s", id)
		}
	}
}

// genuine has the registry try a script on agent-1, and returns what travelled, and the incarnation of the agent.
func (v *thief) genuine(ctx context.Context) (recorded []*nats.Msg, id, incarnation string) {
	v.t.Helper()
	found, err := v.registry.Try(ctx, registryclient.TryRequest{
		Name: script.Name{Tenant: "acme", Script: "genuine"}, Source: []byte("function handle() return 'ran' end"), Agent: "agent-1", Calls: [][]json.RawMessage{nil},
		Settings: &script.Settings{Spec: patient()},
	})
	if err != nil || len(found.Calls) != 1 || fmt.Sprintf("%s", found.Calls[0].Results) != `["ran"]` {
		v.t.Fatalf("%+v, %v", found, err)
	}
	for {
		msg := <-v.seen
		var q eventv1.Query
		var c eventv1.QueryContent
		_, notQuery := seal.TrustEverything().Open(msg.Data, &q)
		_, _ = seal.TrustEverything().Open(msg.Data, &c)
		if id = q.GetId() + c.GetId(); v.known[id] || strings.HasPrefix(id, "forged") {
			continue // what the thief has sent
		}
		recorded = append(recorded, msg)
		if notQuery == nil && q.GetTry() != nil {
			v.known[id] = true
			v.next(id)
			return recorded, id, q.GetTry().GetIncarnation()
		}
	}
}

// TestTryIsNotForged: who is on NATS has no agent run anything: not with a key of its own, and not with recorded messages.
func TestTryIsNotForged(t *testing.T) {
	s := start(t)
	v := s.thief()
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
	defer cancel()
	recorded, id, incarnation := v.genuine(ctx)
	_, own, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, sealer := range []*seal.Sealer{seal.Unsigned(), seal.NewSealer(own)} {
		for _, agent := range []string{"agent-1", "agent-2"} {
			q, c := v.query(fmt.Sprint("forged-", i, agent), agent, incarnation)
			v.send(sealer, q, c)
		}
	}
	replay := func() {
		t.Helper()
		for _, msg := range recorded {
			if err := v.conn.Publish(msg.Subject, msg.Data); err != nil {
				t.Fatal(err)
			}
		}
	}
	replay()
	if err := v.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	v.genuine(ctx) // an agent that answers what came before would have done so, or is about to
	for quiet := true; quiet; {
		select {
		case m := <-v.answers:
			if m.GetId() == id || strings.HasPrefix(m.GetId(), "forged") {
				t.Errorf("an agent answers what was recorded or forged: %v", m)
			}
		default:
			quiet = false
		}
	}
	// The agent has forgotten what it knew, and refuses all the same.
	if err := s.StopAgent(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if err := s.StartAgent(1); err != nil {
		t.Fatal(err)
	}
	if !eventually(ctx, func() bool {
		_, err := s.registry.Try(ctx, registryclient.TryRequest{Name: name, Source: []byte("function handle() end"), Agent: "agent-1"})
		return err == nil
	}) {
		t.Fatal("the agent does not come back")
	}
	replay()
	if m := v.next(id); m.GetError().GetKind() != string(script.Unavailable) || m.GetTry() != nil {
		t.Errorf("a recorded query, after a restart: %v", m)
	}
}

// TestWhatAnAgentTries: even the registry's key has no agent run what is for another one, is old, is not what the digest says,
// or is of a tenant whose scripts need signatures.
func TestWhatAnAgentTries(t *testing.T) {
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	known, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tenant-keys.yaml")
	text := fmt.Sprintf("publishers:\n  - tenants: [strict]\n    keys: [%q]\n", strings.TrimSpace(string(ssh.MarshalAuthorizedKey(known))))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, local.WithTenantKeys(file))
	v := s.thief()
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
	defer cancel()
	_, _, incarnation := v.genuine(ctx)
	signing, err := seal.ReadPrivateKey(filepath.Join(s.dir, "signing.key"))
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		change func(*eventv1.Query, *eventv1.QueryContent)
		kind   script.Kind
	}{
		"a good one":   {func(*eventv1.Query, *eventv1.QueryContent) {}, ""},
		"all agents":   {func(q *eventv1.Query, _ *eventv1.QueryContent) { q.Agents = []string{"agent-?"} }, script.Denied},
		"another life": {func(q *eventv1.Query, _ *eventv1.QueryContent) { q.GetTry().Incarnation = "before" }, script.Unavailable},
		"an old one": {func(q *eventv1.Query, _ *eventv1.QueryContent) {
			q.SentAt = timestamppb.New(time.Now().Add(-2 * time.Minute))
		}, script.Unavailable},
		"another script":  {func(_ *eventv1.Query, c *eventv1.QueryContent) { c.Data[len(c.Data)-1]++ }, script.Unavailable},
		"another tenant":  {func(q *eventv1.Query, _ *eventv1.QueryContent) { q.Tenant = "other" }, script.Invalid},
		"a strict tenant": {func(q *eventv1.Query, _ *eventv1.QueryContent) { q.Tenant = "strict" }, script.Denied},
		"a large content": {func(q *eventv1.Query, _ *eventv1.QueryContent) { q.GetTry().Size = 1 << 30 }, script.Unavailable},
	} {
		q, content := v.query("signed: "+what, "agent-1", incarnation)
		c.change(q, content)
		v.send(seal.NewSealer(signing), q, content)
		m := v.next(q.GetId())
		if got := script.Kind(m.GetError().GetKind()); got != c.kind || (m.GetTry() == nil) != (c.kind != "") {
			t.Errorf("%s: %v, want %q", what, m, c.kind)
		}
	}
	if _, err := s.registry.Try(ctx, registryclient.TryRequest{Name: script.Name{Tenant: "strict", Script: "x"}, Source: []byte("function handle() end"), Agent: "agent-1"}); script.KindOf(err) != script.Denied || !strings.Contains(err.Error(), "--tenant-keys") {
		t.Errorf("a tenant whose scripts need signatures: %v", err)
	}
	for what, c := range map[string]struct {
		req  registryclient.TryRequest
		kind script.Kind
		says string
	}{
		"no such agent": {registryclient.TryRequest{Agent: "agent-9"}, script.NotFound, "agent-9"},
		"a pattern":     {registryclient.TryRequest{Agent: "agent-*"}, script.NotFound, "agent-*"},
		"no JSON":       {registryclient.TryRequest{Calls: args("{")}, script.Invalid, "calls[0]"},
		"many calls":    {registryclient.TryRequest{Calls: args(strings.Fields(strings.Repeat("1 ", 51))...)}, script.Invalid, "at most 50"},
		"large calls":   {registryclient.TryRequest{Calls: args(`"` + strings.Repeat("x", 1<<20) + `"`)}, script.Invalid, "1 MiB"},
		"a long time":   {registryclient.TryRequest{Timeout: time.Hour}, script.Invalid, "timeout"},
	} {
		c.req.Name, c.req.Source = name, []byte("function handle() end")
		if _, err := s.registry.Try(ctx, c.req); script.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s and %q", what, err, c.kind, c.says)
		}
	}
}
