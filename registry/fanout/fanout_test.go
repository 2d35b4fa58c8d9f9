package fanout_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fanout"
	"github.com/scriptorium-dev/scriptorium/registry/feed"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/mirror"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The registry's key in these tests, and what agents believe.
var (
	key     = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	sealer  = seal.NewSealer(key)
	keyring = seal.NewKeyring(key.Public().(ed25519.PublicKey))
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

func startNATS(t *testing.T, cfg embedded.NATSConfig) *embedded.NATS {
	t.Helper()
	if cfg.Port == 0 {
		cfg.Port = porttest.Port(t) // nobody else takes it while NATS is away
	}
	n, err := embedded.StartNATS(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Stop)
	return n
}

func connect(t *testing.T, url string, reports chan<- fleet.Report) *fanout.Fanout {
	t.Helper()
	return connectWith(t, fanout.Config{URLs: []string{url}, Reports: func(r fleet.Report) { reports <- r }})
}

func connectWith(t *testing.T, cfg fanout.Config) *fanout.Fanout {
	t.Helper()
	cfg.Subjects, cfg.Log = wire.Subjects{Prefix: "test"}, slog.New(slog.DiscardHandler)
	cfg.Sealer, cfg.Sessions = sealer, sessions{}
	f, err := fanout.Connect(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// listener is an agent's end of NATS.
type listener struct {
	t   *testing.T
	nc  *nats.Conn
	sub *nats.Subscription
}

func listen(t *testing.T, url string) *listener {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	sub, err := nc.SubscribeSync("test.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return &listener{t: t, nc: nc, sub: sub}
}

// next reads the next message into m and returns its subject.
func (l *listener) next(m proto.Message) string {
	l.t.Helper()
	msg, err := l.sub.NextMsg(patience)
	if err != nil {
		l.t.Fatal(err)
	}
	if id, err := keyring.Open(msg.Data, m); err != nil || id != sealer.KeyID() {
		l.t.Fatalf("%s: key %q, %v", msg.Subject, id, err)
	}
	return msg.Subject
}

// sessions are those of these tests: their keys follow from one secret.
type sessions struct{}

func (sessions) Key(token []byte) ([]byte, error) {
	return seal.SessionKey([]byte("secret"), token), nil
}

func (sessions) KeyIDs() []string { return []string{"known"} }

// sessionFor returns a session in which the status is what its agent may say.
func sessionFor(t *testing.T, m *eventv1.Status) seal.Session {
	t.Helper()
	token, err := proto.Marshal(&eventv1.Session{Agent: m.GetAgent(), Incarnation: m.GetIncarnation(), Tenants: m.GetTenants(), Number: 7, Identity: "agents"})
	if err != nil {
		t.Fatal(err)
	}
	return seal.Session{Token: token, Key: seal.SessionKey([]byte("secret"), token)}
}

// eventually polls until ok is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

func event(revision script.Revision, source []byte) feed.Event {
	return feed.Event{
		Group: "all", Fleet: "F1", Revision: revision, Previous: revision - 1, Entries: [][]byte{[]byte("sealed")},
		Sources: []registry.Source{{Digest: script.DigestOf(source), Content: source}}, CommittedAt: time.Unix(1_700_000_000, 5).UTC(),
	}
}

func TestPublish(t *testing.T) {
	n := startNATS(t, embedded.NATSConfig{})
	l := listen(t, n.URL())
	f := connect(t, n.URL(), nil)
	eventually(t, "connected", f.Connected)

	want := event(7, []byte("return 1"))
	want.Group = "g-0123456789abcdef"
	if err := f.PublishEvent(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	var e eventv1.Event
	if subject := l.next(&e); subject != "test.feed.g-0123456789abcdef.event" {
		t.Errorf("the event came on %s", subject)
	}
	digest := script.DigestOf([]byte("return 1"))
	if !proto.Equal(&e, &eventv1.Event{
		Fleet: "F1", Group: want.Group, Revision: 7, PreviousRevision: 6, CommittedAt: timestamppb.New(want.CommittedAt),
		Entries: [][]byte{[]byte("sealed")}, Sources: []*scriptv1.Source{{Digest: digest[:], Content: []byte("return 1")}},
	}) {
		t.Errorf("event: %v", &e)
	}

	sent := time.Unix(1_700_000_001, 0).UTC()
	beacon := feed.Beacon{
		Group: "all", Fleet: "F1", Head: 7, Position: mirror.Position{Head: 5, Sums: mirror.Sums{{1, 2, 3, 4}, {5}, {6}}, LossAcceptedAt: 4},
		Term: 3, Sequence: 9, ReportInterval: 200 * time.Millisecond, SentAt: sent, Agents: 120,
	}
	if err := f.PublishBeacon(t.Context(), beacon); err != nil {
		t.Fatal(err)
	}
	var b eventv1.Beacon
	if subject := l.next(&b); subject != "test.feed.all.beacon" || !proto.Equal(&b, &eventv1.Beacon{
		Fleet: "F1", Group: "all", HeadRevision: 7, GroupRevision: 5, Term: 3, Sequence: 9, SentAt: timestamppb.New(sent),
		ReportInterval: durationpb.New(200 * time.Millisecond), AcceptedLossRevision: 4, SessionKeys: []string{"known"}, Agents: 120, Checksums: []*eventv1.Checksum{
			{Kind: "releases", Sum: wire.Sum{1, 2, 3, 4}.Bytes()}, {Kind: "values", Sum: wire.Sum{5}.Bytes()}, {Kind: "tenants", Sum: wire.Sum{6}.Bytes()},
		},
	}) {
		t.Errorf("beacon on %s: %v", subject, &b)
	}
	f.RollCall("F1")
	var roll eventv1.RollCall
	if subject := l.next(&roll); subject != "test.rollcall" || roll.GetFleet() != "F1" {
		t.Errorf("roll call on %s: %v", subject, &roll)
	}
}

// TestTooLarge: an event that the server does not take goes out without its
// sources, or not at all; the next is not held up.
func TestTooLarge(t *testing.T) {
	n := startNATS(t, embedded.NATSConfig{MaxPayload: 4096})
	l := listen(t, n.URL())
	f := connect(t, n.URL(), nil)
	eventually(t, "connected", f.Connected)

	if err := f.PublishEvent(t.Context(), event(1, bytes.Repeat([]byte("x"), 5000))); err != nil {
		t.Fatal(err)
	}
	var e eventv1.Event
	l.next(&e)
	if len(e.GetSources()) != 0 || len(e.GetEntries()) != 1 {
		t.Errorf("%d sources, %d entries; want the entry alone", len(e.GetSources()), len(e.GetEntries()))
	}
	huge := event(2, []byte("x"))
	huge.Entries = [][]byte{bytes.Repeat([]byte("x"), 5000)}
	if err := f.PublishEvent(t.Context(), huge); err == nil {
		t.Error("an event of 5,000 bytes got through a server that takes 4,096")
	}
	if err := f.PublishEvent(t.Context(), event(3, []byte("x"))); err != nil {
		t.Fatal(err)
	}
	if l.next(&e); e.GetRevision() != 3 {
		t.Errorf("revision %d, want 3", e.GetRevision())
	}
	if got := f.Stats(); got.Events != 2 || got.Trimmed != 1 || got.Oversized != 1 || got.Failed != 0 {
		t.Errorf("stats: %+v", got)
	}
}

// TestOutage: without NATS nothing blocks and nothing is kept for later; when it
// comes back the roll is called and the feed goes on.
func TestOutage(t *testing.T) {
	n := startNATS(t, embedded.NATSConfig{})
	reports := make(chan fleet.Report, 10)
	f := connect(t, n.URL(), reports)
	eventually(t, "connected", f.Connected)
	f.RollCall("F1")
	n.Stop()
	eventually(t, "disconnected", func() bool { return !f.Connected() })
	for i := range script.Revision(100) {
		if err := f.PublishEvent(t.Context(), event(i+1, []byte("lost"))); err == nil {
			t.Fatal("published without a server")
		}
	}
	if err := f.PublishBeacon(t.Context(), feed.Beacon{Group: "all", Fleet: "F1", Head: 100}); err == nil {
		t.Error("a beacon was published without a server")
	}
	if got := f.Stats(); got.Failed != 101 || got.Events != 0 {
		t.Errorf("stats: %+v", got)
	}
	n = startNATS(t, embedded.NATSConfig{Port: n.Port()})
	l := listen(t, n.URL())
	eventually(t, "connected again", f.Connected)
	if err := f.PublishEvent(t.Context(), event(101, []byte("new"))); err != nil {
		t.Fatal(err)
	}
	var e eventv1.Event
	for {
		msg, err := l.sub.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		if msg.Subject != "test.feed.all.event" {
			continue // the roll call, if we were here in time
		}
		if _, err := keyring.Open(msg.Data, &e); err != nil {
			t.Fatal(err)
		}
		break
	}
	if e.GetRevision() != 101 {
		t.Errorf("revision %d came first, want 101", e.GetRevision())
	}
	sendStatus(t, l.nc, "a", &eventv1.Status{Fleet: "F1", Agent: "a", Incarnation: "1", Sequence: 1})
	select {
	case r := <-reports:
		if r.Agent != "a" {
			t.Errorf("report: %+v", r)
		}
	case <-time.After(patience):
		t.Fatal("the subscription did not come back")
	}
}

// TestStartsWithoutNATS: a registry that starts before NATS calls the roll once it
// is there.
func TestStartsWithoutNATS(t *testing.T) {
	n := startNATS(t, embedded.NATSConfig{})
	n.Stop()
	called := make(chan struct{}, 100)
	f := connectWith(t, fanout.Config{URLs: []string{n.URL()}, RollCalled: func() { called <- struct{}{} }})
	f.RollCall("F1")
	if len(called) != 0 {
		t.Error("the roll is said to be called without NATS")
	}
	if f.Connected() {
		t.Error("connected to a server that is stopped")
	}
	if err := f.PublishEvent(t.Context(), event(1, nil)); err == nil {
		t.Error("published without a server")
	}
	n = startNATS(t, embedded.NATSConfig{Port: n.Port()})
	awaitCall(t, called)
	eventually(t, "connected", f.Connected)
	n.Stop()
	startNATS(t, embedded.NATSConfig{Port: n.Port()})
	awaitCall(t, called) // agents may have come and gone meanwhile
	eventually(t, "published", func() bool { return f.PublishEvent(t.Context(), event(2, nil)) == nil })
}

// refuser refuses the first connections.
type refuser struct{ left atomic.Int32 }

func (r *refuser) Check(server.ClientAuthentication) bool { return r.left.Add(-1) < 0 }

// TestSurvivesRefusals: a password that is wrong for a while costs the time, not
// the connection.
func TestSurvivesRefusals(t *testing.T) {
	auth := &refuser{}
	auth.left.Store(4)
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, CustomClientAuthentication: auth})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(patience) {
		t.Fatal("NATS does not start")
	}
	f := connect(t, s.ClientURL(), nil)
	eventually(t, "connected", f.Connected)
	if left := auth.left.Load(); left >= 0 {
		t.Errorf("%d connections were to be refused yet", left)
	}
}

func awaitCall(t *testing.T, called <-chan struct{}) {
	t.Helper()
	select {
	case <-called:
	case <-time.After(patience):
		t.Fatal("nobody said that the roll was called")
	}
}

func sendStatus(t *testing.T, nc *nats.Conn, agent string, m *eventv1.Status) {
	t.Helper()
	data, err := seal.SealStatus(m, sessionFor(t, m))
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Publish("test.status."+agent, data); err != nil {
		t.Fatal(err)
	}
}

func TestReports(t *testing.T) {
	n := startNATS(t, embedded.NATSConfig{})
	reports := make(chan fleet.Report, 100)
	f := connect(t, n.URL(), reports)
	eventually(t, "connected", f.Connected)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := f.Flush(ctx); err != nil { // the subscription is there now
		t.Fatal(err)
	}
	nc := listen(t, n.URL()).nc

	bad := func(change func(*eventv1.Status)) *eventv1.Status {
		m := &eventv1.Status{Fleet: "F1", Agent: "node.example-1", Incarnation: "i", Sequence: 1}
		change(m)
		return m
	}
	many := map[string]string{}
	for i := range 100 {
		many[strings.Repeat("k", i+1)] = ""
	}
	refused := []*eventv1.Status{
		bad(func(m *eventv1.Status) { m.ActivatedRevision = -1 }),
		bad(func(m *eventv1.Status) { m.Labels = many }),
		bad(func(m *eventv1.Status) { m.Labels = map[string]string{"k": strings.Repeat("v", 5000)} }),
		bad(func(m *eventv1.Status) { m.Software = strings.Repeat("v", 5000) }),
		bad(func(m *eventv1.Status) { m.Tenants = []string{"NOT A GLOB"} }),
		bad(func(m *eventv1.Status) { m.DiskKeys = []string{strings.Repeat("k", 5000)} }),
		bad(func(m *eventv1.Status) { m.DiskKeys = make([]string, 100) }),
	}
	for _, m := range refused {
		sendStatus(t, nc, "node.example-1", m)
	}
	others := []*eventv1.Status{
		bad(func(m *eventv1.Status) { m.Agent = "" }),
		bad(func(m *eventv1.Status) { m.Agent = "somebody-else" }),
	}
	for _, m := range others {
		sendStatus(t, nc, "node.example-1", m)
	}
	for _, data := range []string{"", "garbage", "\x08\x02"} {
		if err := nc.Publish("test.status.node.example-1", []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	sendStatus(t, nc, "node.example-1", &eventv1.Status{
		Fleet: "F1", Agent: "node.example-1", Incarnation: "i", Sequence: 9, Labels: map[string]string{"zone": "a"},
		Software: "v1", ActivatedRevision: 12, Leaving: true,
		Tenants: []string{"shop-*", "acme"}, DiskKeys: []string{"0123456789abcdef"}, Drifts: 3,
		Lags:        []*eventv1.Lag{{Tenant: "acme", Above: 11}, {Tenant: "acme", Above: 9}, {Tenant: "other", Above: 1}, {Tenant: "NOT a name"}},
		Activations: []*eventv1.Activation{{Revision: 12, Ago: durationpb.New(time.Second)}},
		Failures: []*eventv1.Failure{
			{Key: "releases/acme/route", Revision: 11, Error: &scriptv1.Error{Kind: "SCRIPT", Message: strings.Repeat("é", 5000), Line: 3}},
			{Key: "settings/acme", Revision: 10},
			{Key: "releases/NOT/a name", Revision: 10},
			{Key: "releases/acme/auth", Revision: 9},
			{Key: "values/acme/flags/a", Revision: 12},
			{Key: "releases/other/route", Revision: 12},
		},
		Trials: []*eventv1.Trial{
			{Key: "releases/acme/route", Version: 3, Attempt: 7, Tested: true, Error: &scriptv1.Error{Kind: "SCRIPT", Field: "tests[a]", Message: strings.Repeat("é", 5000)}, Calls: 5, FailedCalls: 2, ProcessEnded: true},
			{Key: "releases/NOT/a name", Version: 3},
			{Key: "values/acme/flags/a", Version: 3},
			{Key: "releases/other/route", Version: 3},
			{Key: "releases/acme/auth", Version: 4, Attempt: 8, Waiting: strings.Repeat("é", 5000)},
		},
	})
	var r fleet.Report
	select {
	case r = <-reports:
	case <-time.After(patience):
		t.Fatal("no report came")
	}
	if r.Session != 7 || r.Identity != "agents" || r.Fleet != "F1" || r.Agent != "node.example-1" || r.Incarnation != "i" || r.Sequence != 9 || r.Labels["zone"] != "a" ||
		r.Software != "v1" || r.Activated != 12 || !r.Leaving || len(r.Failures) != 3 {
		t.Errorf("report: %+v", r)
	}
	if r.Tenants.String() != "acme,shop-*" || !slices.Equal(r.DiskKeys, []string{"0123456789abcdef"}) || r.Drifts != 3 || !slices.Equal(r.Activations, []fleet.Activation{{Revision: 12, Ago: time.Second}}) {
		t.Errorf("report: %+v", r)
	}
	if !maps.Equal(r.Lags, map[string]script.Revision{"acme": 9}) {
		t.Errorf("lags: %v", r.Lags)
	}
	if first := r.Failures[0]; first.Name.String() != "acme/route" || first.Revision != 11 || first.Err.Line != 3 || len(first.Err.Message) > 1024 {
		t.Errorf("failure: %+v", first)
	}
	if value := r.Failures[2]; value.Name.String() != "acme/kv:flags/a" || value.Revision != 12 {
		t.Errorf("the failure of a value: %+v", value)
	}
	if len(r.Trials) != 2 || r.Trials[1] != (fleet.Trial{Name: script.Name{Tenant: "acme", Script: "auth"}, Version: 4, Attempt: 8, Waiting: strings.Repeat("é", 128)}) {
		t.Fatalf("trials: %+v", r.Trials)
	}
	first := r.Trials[0]
	if first.Name.String() != "acme/route" || first.Version != 3 || first.Attempt != 7 || !first.Tested || first.Calls != 5 || first.FailedCalls != 2 || !first.ProcessEnded ||
		first.Err.Field != "tests[a]" || len(first.Err.Message) > 1024 {
		t.Errorf("trial: %+v", first)
	}
	if r.Failures[1].Err == nil {
		t.Error("a failure without a reason has no error")
	}
	want := map[string]uint64{"malformed": uint64(len(refused) + 3), "other_session": uint64(len(others)), "no_session": 0, "unknown_session": 0, "forged": 0, "too_often": 0}
	if got := f.Stats(); !maps.Equal(got.Refused, want) || got.Reports != 1 || got.Skipped != 7 {
		t.Errorf("stats: %+v, want %v refused and one report", got, want)
	}
}
