package follow_test

import (
	"context"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
)

// patience with what happens outside of this process's clock.
const patience = 20 * time.Second

// natsServer starts a server on the port, any if it is -1.
func natsServer(t *testing.T, port int) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not start")
	}
	t.Cleanup(s.Shutdown)
	return s
}

func portOf(t *testing.T, s *server.Server) int {
	t.Helper()
	u, err := url.Parse(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// heard collects what a feed delivers.
type heard chan string

func (h heard) Event(data []byte)    { h <- "event " + string(data) }
func (h heard) Beacon(data []byte)   { h <- "beacon " + string(data) }
func (h heard) RollCall(data []byte) { h <- "roll call " + string(data) }
func (h heard) Tail(data []byte)     { h <- "tail " + string(data) }
func (h heard) Recall(data []byte)   { h <- "recall " + string(data) }
func (h heard) Query(data []byte)    { h <- "query " + string(data) }
func (h heard) Content(data []byte)  { h <- "content " + string(data) }
func (h heard) Lost()                { h <- "lost" }
func (h heard) Connected(is bool)    { h <- "connected " + strconv.FormatBool(is) }

func (h heard) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-h:
			if got != w {
				t.Fatalf("heard %q, want %q", got, w)
			}
		case <-time.After(patience):
			t.Fatalf("%q never came", w)
		}
	}
}

// publisher is another client of the server.
func publisher(t *testing.T, s *server.Server) (*nats.Conn, func(subject, data string)) {
	t.Helper()
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn, func(subject, data string) {
		t.Helper()
		if err := conn.Publish(subject, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNATS(t *testing.T) {
	s := natsServer(t, -1)
	subjects := wire.Subjects{Prefix: "test"}
	feed := &follow.NATS{URLs: []string{s.ClientURL()}, Subjects: subjects, Group: "g", Agent: "node-1.example", Log: quiet}
	if err := feed.Report(t.Context(), &eventv1.Status{}, seal.Session{}); err == nil {
		t.Error("reported without a connection")
	}
	h := make(heard, 100)
	if err := feed.Subscribe(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	h.expect(t, "connected true")

	conn, publish := publisher(t, s)
	for i := range 20 {
		publish(subjects.Event("g"), strconv.Itoa(i))
		publish(subjects.Beacon("g"), strconv.Itoa(i))
		publish(subjects.Event("all"), "of another group")
	}
	for i := range 20 {
		h.expect(t, "event "+strconv.Itoa(i), "beacon "+strconv.Itoa(i))
	}
	publish("test.feed.g.unknown", "what")
	publish(subjects.Event("g"), "last")
	h.expect(t, "event last")
	publish(subjects.RollCall(), "all")
	h.expect(t, "roll call all")
	publish(subjects.Tail(), "acme")
	h.expect(t, "tail acme")
	publish(subjects.Recall(), "acme")
	h.expect(t, "recall acme")
	publish(subjects.Query(), "acme")
	h.expect(t, "query acme")

	logs, err := conn.SubscribeSync(subjects.AllLogs())
	if err != nil {
		t.Fatal(err)
	}
	statuses, err := conn.SubscribeSync(subjects.AllStatus())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := feed.Report(t.Context(), &eventv1.Status{Agent: "node-1.example", Leaving: true}, seal.Session{}); err != nil {
		t.Fatal(err)
	}
	if err := feed.SendLogs(&eventv1.Logs{Agent: "node-1.example", Dropped: 3}); err != nil {
		t.Fatal(err)
	}
	feed.Close() // what was reported is on its way before
	msg, err := statuses.NextMsg(patience)
	if err != nil {
		t.Fatal(err)
	}
	var status eventv1.Status
	if err := seal.ReadStatus(msg.Data, &status); err != nil || !status.GetLeaving() || msg.Subject != "test.status.node-1.example" {
		t.Errorf("%s: %v, %v", msg.Subject, &status, err)
	}
	if msg, err = logs.NextMsg(patience); err != nil {
		t.Fatal(err)
	}
	var said eventv1.Logs
	if err := seal.OpenLogs(msg.Data, &said); err != nil || said.GetDropped() != 3 || msg.Subject != "test.logs.node-1.example" {
		t.Errorf("%s: %v, %v", msg.Subject, &said, err)
	}
	if err := feed.SendLogs(&eventv1.Logs{}); err == nil {
		t.Error("lines were sent after the end")
	}
}

func TestNATSComesAndGoes(t *testing.T) {
	port := porttest.Port(t) // nothing listens there yet
	subjects := wire.Subjects{Prefix: "test"}
	feed := &follow.NATS{URLs: []string{"nats://127.0.0.1:" + strconv.Itoa(port)}, Subjects: subjects, Group: "g", Agent: "n", Log: quiet}
	h := make(heard, 100)
	if err := feed.Subscribe(context.Background(), h); err != nil {
		t.Fatalf("with the server down: %v", err)
	}
	defer feed.Close()
	for range 2 {
		s := natsServer(t, port)
		h.expect(t, "connected true")
		_, publish := publisher(t, s)
		publish(subjects.Event("g"), "7")
		h.expect(t, "event 7")
		if err := feed.Report(t.Context(), &eventv1.Status{}, seal.Session{}); err != nil {
			t.Error(err)
		}
		s.Shutdown()
		s.WaitForShutdown()
		h.expect(t, "connected false")
	}
	if portOf(t, natsServer(t, port)) != port {
		t.Error("another port")
	}
	h.expect(t, "connected true")
}

func TestNATSMisconfigured(t *testing.T) {
	feed := &follow.NATS{URLs: []string{"nats://\x7f:what"}, Agent: "n", Log: quiet}
	if err := feed.Subscribe(t.Context(), make(heard, 1)); err == nil {
		t.Error("no error")
	}
}
