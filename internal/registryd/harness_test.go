package registryd_test

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/embedded/etcdtest"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// etcd is shared by all tests, each under a prefix of its own.
var etcd *embedded.Etcd

func TestMain(m *testing.M) {
	os.Exit(etcdtest.Run(m, func(e *embedded.Etcd) { etcd = e }))
}

func startNATS(t *testing.T, port int) *embedded.NATS {
	t.Helper()
	if port == 0 {
		port = porttest.Port(t) // nobody else takes it while NATS is away
	}
	n, err := embedded.StartNATS(t.Context(), embedded.NATSConfig{Port: port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Stop)
	return n
}

type checker struct{}

func (checker) Name() string              { return "lua" }
func (checker) Check(engine.Source) error { return nil }
func quiet() *slog.Logger                 { return slog.New(slog.DiscardHandler) }
func engines() map[string]engine.Checker  { return map[string]engine.Checker{"lua": checker{}} }
func socket(dir string) string            { return "unix:" + filepath.Join(dir, "registry.sock") }
func dir(t *testing.T) string {
	t.Helper()
	d, _ := os.MkdirTemp("", "r")
	t.Cleanup(func() { os.RemoveAll(d) })
	return d
}

func subjects(cfg registryd.Config) wire.Subjects { return wire.Subjects{Prefix: cfg.SubjectPrefix} }

// config returns the configuration of a registry of its own, of a fleet that is founded.
func config(t *testing.T, natsURL string) registryd.Config {
	t.Helper()
	cfg := unfounded(t, natsURL)
	found(t, cfg)
	return cfg
}

// found founds the fleet of the configuration and returns its id.
func found(t *testing.T, cfg registryd.Config) string {
	t.Helper()
	fleet, _, err := registryd.Found(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return fleet
}

// unfounded returns the configuration of a registry of its own, without a fleet.
func unfounded(t *testing.T, natsURL string) registryd.Config {
	t.Helper()
	id := rand.Text()
	return registryd.Config{
		EtcdEndpoints: []string{etcd.Endpoint()},
		EtcdPrefix:    "/" + id,
		NATS:          []string{natsURL},
		SubjectPrefix: id,
		Listen:        []string{socket(dir(t)), "127.0.0.1:0"},
		AdminAddress:  "127.0.0.1:0",
		Log:           quiet(),
		Metrics:       prometheus.NewRegistry(),
		Engines:       engines(),
		Security:      registryd.Security{InsecureUnsigned: true, InsecureAnonymous: true, InsecurePlaintext: true},
	}
}

func start(t *testing.T, cfg registryd.Config) (*registryd.Daemon, *client) {
	t.Helper()
	cfg.Metrics = prometheus.NewRegistry()
	d, err := registryd.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, d) })
	return d, dial(t, cfg.Listen[0])
}

func stop(t *testing.T, d *registryd.Daemon) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := d.Stop(ctx); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if ctx.Err() != nil {
		t.Error("Stop did not come to an end")
	}
}

type client struct {
	registryv1.RegistryClient
	checks healthv1.HealthClient
	feed   registryv1.FeedClient
}

func dial(t *testing.T, target string, options ...grpc.DialOption) *client {
	t.Helper()
	conn, err := grpc.NewClient(target, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &client{registryv1.NewRegistryClient(conn), healthv1.NewHealthClient(conn), registryv1.NewFeedClient(conn)}
}

func (c *client) publish(t *testing.T, name, source string) *registryv1.PublishResponse {
	t.Helper()
	resp, err := c.Publish(t.Context(), &registryv1.PublishRequest{Tenant: "acme", Author: "ann", Name: name, Source: []byte(source)})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// agent is a fake one: it receives events, and reports when a test calls it.
type agent struct {
	nc      *nats.Conn
	events  chan *eventv1.Event
	beacons chan *eventv1.Beacon
	rolls   chan struct{}
	on      wire.Subjects

	mu       sync.Mutex
	sessions map[string]seal.Session // by the names and incarnations that it reports under
	opens    func(name, incarnation string, tenants []string) (seal.Session, error)
}

func newAgent(t *testing.T, url string, on wire.Subjects) *agent {
	t.Helper()
	return newAgentOf(t, url, on, script.GroupAll)
}

func newAgentOf(t *testing.T, url string, on wire.Subjects, group string) *agent {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	a := &agent{
		nc: nc, on: on, sessions: map[string]seal.Session{},
		events: make(chan *eventv1.Event, 10_000), beacons: make(chan *eventv1.Beacon, 10_000), rolls: make(chan struct{}, 100),
	}
	open := func(msg *nats.Msg, m proto.Message) {
		if _, err := seal.TrustEverything().Open(msg.Data, m); err != nil {
			t.Error(err)
		}
	}
	handle := func(msg *nats.Msg) {
		switch msg.Subject {
		case on.Event(group):
			var e eventv1.Event
			open(msg, &e)
			a.events <- &e
		case on.Beacon(group):
			var b eventv1.Beacon
			open(msg, &b)
			a.beacons <- &b
		case on.RollCall():
			a.rolls <- struct{}{}
		}
	}
	for _, subject := range []string{on.Feed(group), on.RollCall()} {
		if _, err = nc.Subscribe(subject, handle); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *agent) next(t *testing.T) *eventv1.Event {
	t.Helper()
	select {
	case e := <-a.events:
		return e
	case <-time.After(patience):
		t.Fatal("no event came")
		return nil
	}
}

// hears waits for the fleet's event of the revision, or for a beacon that shows the loss of it: a
// registry that finds etcd changed by others begins with a snapshot. It fails at messages of
// other fleets.
func (a *agent) hears(t *testing.T, fleet string, revision int64) {
	t.Helper()
	timeout := time.After(patience)
	for heard := int64(0); heard < revision; {
		of := fleet
		select {
		case e := <-a.events:
			of, heard = e.GetFleet(), e.GetRevision()
		case b := <-a.beacons:
			of, heard = b.GetFleet(), b.GetGroupRevision()
		case <-timeout:
			t.Fatalf("neither an event nor a beacon of revision %d came", revision)
		}
		if of != fleet {
			t.Errorf("a message of fleet %s", of)
		}
	}
}

func (a *agent) report(t *testing.T, m *eventv1.Status) {
	t.Helper()
	if err := a.send(m); err != nil {
		t.Fatal(err)
	}
}

// send reports in a session that the registry gives, if the agent has joined one.
func (a *agent) send(m *eventv1.Status) error {
	in, err := a.session(m)
	if err != nil {
		return err
	}
	return a.sendIn(m, in)
}

func (a *agent) sendIn(m *eventv1.Status, in seal.Session) error {
	data, err := seal.SealStatus(m, in)
	if err != nil {
		return err
	}
	return a.nc.Publish(a.on.Status(m.GetAgent()), data)
}

func (a *agent) session(m *eventv1.Status) (seal.Session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := m.GetAgent() + " " + m.GetIncarnation()
	if in, ok := a.sessions[of]; ok || a.opens == nil {
		return in, nil
	}
	in, err := a.opens(m.GetAgent(), m.GetIncarnation(), m.GetTenants())
	if err == nil {
		a.sessions[of] = in
	}
	return in, err
}

// joins lets the agent report to the registry of the client.
func (a *agent) joins(t *testing.T, c *client) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	ctx := t.Context()
	a.opens = func(name, incarnation string, tenants []string) (seal.Session, error) {
		return c.session(ctx, name, incarnation, tenants)
	}
}

// session asks the registry for a session.
func (c *client) session(ctx context.Context, name, incarnation string, tenants []string) (seal.Session, error) {
	stream, err := c.feed.Pull(ctx, &registryv1.PullRequest{
		WithoutSources: true, Nonce: make([]byte, 16), Agent: name, Incarnation: incarnation, Tenants: tenants,
	})
	if err != nil {
		return seal.Session{}, err
	}
	resp, err := stream.Recv()
	if err != nil {
		return seal.Session{}, err
	}
	var page eventv1.Page
	_, err = seal.TrustEverything().Open(resp.GetPage(), &page)
	return seal.Session{Token: page.GetSession(), Key: page.GetSessionKey()}, err
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

func admin(t *testing.T, d *registryd.Daemon, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + d.AdminAddr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// leads waits until the replica publishes.
func leads(t *testing.T, d *registryd.Daemon) {
	t.Helper()
	eventually(t, "leads", d.Leading)
}
