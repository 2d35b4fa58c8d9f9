package natssink_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/deliver"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/natssink"
	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
)

const patience = time.Minute

func serve(t *testing.T, cfg embedded.NATSConfig) *embedded.NATS {
	t.Helper()
	n, err := embedded.StartNATS(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Stop)
	return n
}

// configured is a server with more of a configuration.
func configured(t *testing.T, config string) *embedded.NATS {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return serve(t, embedded.NATSConfig{ConfigFile: file})
}

func connect(t *testing.T, url string) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// subscribe returns all decisions that the server gets from now on.
func subscribe(t *testing.T, n *embedded.NATS) *nats.Subscription {
	t.Helper()
	conn := connect(t, n.URL())
	sub, err := conn.SubscribeSync("scriptorium.decisions.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	return sub
}

func newSink(t *testing.T, url string, stream bool) (*natssink.Sink, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	s, err := natssink.New(natssink.Config{
		URLs: []string{url}, Subjects: wire.Subjects{Prefix: "scriptorium"}, Agent: "n1.internal", JetStream: stream,
		Courier: deliver.Config{Timeout: 2 * time.Second, RetryMin: time.Millisecond, RetryMax: 20 * time.Millisecond},
		Log:     slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s, &log
}

func write(t *testing.T, s *natssink.Sink, records ...[]byte) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return s.Write(ctx, records)
}

func record(id, tenant, script string) []byte {
	return fmt.Appendf(nil, `{"decision_id":%q,"tenant":%q,"script":%q,"outcome":"OK"}`, id, tenant, script)
}

func wantRefused(t *testing.T, err error, records int, why string) {
	t.Helper()
	if refused, ok := errors.AsType[*decisionlog.Rejected](err); !ok || refused.Records != records || !strings.Contains(err.Error(), why) {
		t.Errorf("got %v, want %d records refused: %s", err, records, why)
	}
}

func TestSubjects(t *testing.T) {
	n := serve(t, embedded.NATSConfig{MaxPayload: 4096})
	sub := subscribe(t, n)
	s, _ := newSink(t, n.URL(), false)
	large := record("3", "acme", strings.Repeat("x", 4096))
	err := write(t, s, record("1", "acme", "route"), record("2", "", ""), large, []byte(`{"decision_id":"4","tenant":"a.*.>","script":"> x"}`), []byte(`no record`))
	wantRefused(t, err, 1, "more than the 4096 bytes")
	for _, want := range []string{
		`scriptorium.decisions.acme.route.n1.internal [1] {"decision_id":"1","tenant":"acme","script":"route","outcome":"OK"}`,
		`scriptorium.decisions._._.n1.internal [2] {"decision_id":"2","tenant":"","script":"","outcome":"OK"}`,
		`scriptorium.decisions._._.n1.internal [4] {"decision_id":"4","tenant":"a.*.>","script":"> x"}`,
		`scriptorium.decisions._._.n1.internal [] no record`,
	} {
		m, err := sub.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s %v %s", m.Subject, m.Header[nats.MsgIdHdr], m.Data); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if err := write(t, s); err != nil {
		t.Errorf("no records: %v", err)
	}
}

func TestWhatTheServerForbids(t *testing.T) {
	n := configured(t, `authorization { users = [{ user: agent, password: secret, permissions: { publish: { allow: ["scriptorium.decisions.acme.>"] } } }] }`)
	url := strings.Replace(n.URL(), "nats://", "nats://agent:secret@", 1)
	s, log := newSink(t, url, false)
	for range 2 {
		wantRefused(t, write(t, s, record("1", "shop", "cart"), record("2", "shop", "cart")), 2, "ermissions")
		if err := write(t, s, record("3", "acme", "route")); err != nil {
			t.Error(err)
		}
	}
	if text := log.String(); strings.Contains(text, "secret") || strings.Count(text, "refuses records") != 1 {
		t.Errorf("the log: %s", text)
	}
}

// TestAServerThatIsGone: a write ends with its context, and others arrive when the server is back.
func TestAServerThatIsGone(t *testing.T) {
	n := serve(t, embedded.NATSConfig{Port: porttest.Port(t)})
	s, log := newSink(t, n.URL(), false)
	if err := write(t, s, record("1", "acme", "route")); err != nil {
		t.Fatal(err)
	}
	n.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Write(ctx, [][]byte{record("2", "acme", "route")}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no server: %v", err)
	}
	again := serve(t, embedded.NATSConfig{Port: n.Port()})
	sub := subscribe(t, again)
	if err := write(t, s, record("3", "acme", "route")); err != nil {
		t.Fatal(err)
	}
	if m, err := sub.NextMsg(patience); err != nil || m.Header.Get(nats.MsgIdHdr) != "3" {
		t.Errorf("got %v, %v", m, err)
	}
	if !strings.Contains(log.String(), "takes records again") {
		t.Errorf("the log: %s", log)
	}
}

// TestAServerThatIsNotThereYet: the sink of an agent that starts before NATS waits for it.
func TestAServerThatIsNotThereYet(t *testing.T) {
	first := serve(t, embedded.NATSConfig{Port: porttest.Port(t)})
	first.Stop()
	s, _ := newSink(t, first.URL(), false)
	done := make(chan error, 1)
	go func() { done <- write(t, s, record("1", "acme", "route")) }()
	serve(t, embedded.NATSConfig{Port: first.Port()})
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestAServerThatHangs takes connections and says nothing, or nothing after its greeting.
func TestAServerThatHangs(t *testing.T) {
	for _, greeting := range []string{"", `INFO {"server_id":"x","version":"2.10.0","headers":true,"max_payload":1048576}` + "\r\n"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte(greeting))
				defer conn.Close()
			}
		}()
		s, err := natssink.New(natssink.Config{
			URLs: []string{"nats://" + l.Addr().String()}, Subjects: wire.Subjects{Prefix: "scriptorium"}, Agent: "n1",
			Courier: deliver.Config{Timeout: 50 * time.Millisecond, RetryMin: time.Millisecond, RetryMax: time.Millisecond}, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := s.Write(ctx, [][]byte{record("1", "acme", "route")}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q: %v", greeting, err)
		}
		cancel()
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		l.Close()
	}
}

func TestJetStream(t *testing.T) {
	n := configured(t, fmt.Sprintf("jetstream { store_dir: %q }", t.TempDir()))
	s, log := newSink(t, n.URL(), true)
	js, err := jetstream.New(connect(t, n.URL()))
	if err != nil {
		t.Fatal(err)
	}
	// There is no stream yet: the records wait for one.
	done := make(chan error, 1)
	go func() { done <- write(t, s, record("1", "acme", "route"), record("2", "acme", "cart")) }()
	select {
	case err := <-done:
		t.Fatalf("without a stream: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "decisions", Subjects: []string{"scriptorium.decisions.>"}, MaxMsgs: 3, Discard: jetstream.DiscardNew})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	// One that was sent before is known again.
	if err := write(t, s, record("2", "acme", "cart"), record("3", "acme", "cart")); err != nil {
		t.Fatal(err)
	}
	if info, err := stream.Info(t.Context()); err != nil || info.State.Msgs != 3 {
		t.Fatalf("%+v, %v", info, err)
	}
	// The stream is full, as a disk is: records wait until there is room.
	go func() { done <- write(t, s, record("4", "acme", "cart"), record("5", "acme", "cart")) }()
	select {
	case err := <-done:
		t.Fatalf("a full stream: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if info, err := stream.Info(t.Context()); err != nil || info.State.Msgs != 2 {
		t.Errorf("%+v, %v", info, err)
	}
	if text := log.String(); !strings.Contains(text, "no response from stream") && !strings.Contains(text, "no responders") || strings.Count(text, "takes records again") != 2 {
		t.Errorf("the log: %s", text)
	}
}
