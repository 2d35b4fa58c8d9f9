package fanout_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/registry/fanout"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

var route = script.Name{Tenant: "acme", Script: "route"}

// loggingAgent is an agent's end of NATS, as far as logs go.
type loggingAgent struct {
	t     *testing.T
	nc    *nats.Conn
	tails *nats.Subscription
}

func startLogging(t *testing.T, url string) *loggingAgent {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	tails, err := nc.SubscribeSync("test.tail")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return &loggingAgent{t: t, nc: nc, tails: tails}
}

// asked waits until the agent is asked for lines.
func (a *loggingAgent) asked() *eventv1.Tail {
	a.t.Helper()
	msg, err := a.tails.NextMsg(patience)
	if err != nil {
		a.t.Fatal(err)
	}
	var m eventv1.Tail
	if id, err := keyring.Open(msg.Data, &m); err != nil || id != sealer.KeyID() {
		a.t.Fatalf("a tail by key %q: %v", id, err)
	}
	return &m
}

// send sends logs as an agent does: nobody signs them.
func (a *loggingAgent) send(agent string, m *eventv1.Logs) {
	a.t.Helper()
	data, err := seal.SealLogs(m)
	if err != nil {
		a.t.Fatal(err)
	}
	if err := a.nc.Publish("test.logs."+agent, data); err != nil {
		a.t.Fatal(err)
	}
	if err := a.nc.Flush(); err != nil {
		a.t.Fatal(err)
	}
}

func logged(name script.Name, message string) *eventv1.LogLine {
	return &eventv1.LogLine{
		Time: timestamppb.Now(), Tenant: name.Tenant, Name: name.Script, Version: 7, Level: "info", Message: message,
		TraceId: "4bf92f3577b34da6a3ce929d0e0e4736",
	}
}

// watch is a reader whose logs the test pulls.
type watch struct {
	t    *testing.T
	next func() (fleet.Logs, error, bool)
	stop func()
}

func watchLogs(t *testing.T, l *fanout.Logs, of script.Name) *watch {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience) // it is for many waits
	next, stop := iter.Pull2(l.Watch(ctx, of))
	t.Cleanup(func() { stop(); cancel() })
	return &watch{t: t, next: next, stop: stop}
}

func (w *watch) logs() fleet.Logs {
	w.t.Helper()
	logs, err, ok := w.next()
	if err != nil || !ok {
		w.t.Fatalf("the watch ended: %v", err)
	}
	return logs
}

func (w *watch) state(want fleet.LogsState) {
	w.t.Helper()
	if got := w.logs(); got.State != want || len(got.Lines) > 0 {
		w.t.Fatalf("got %+v, want the state %s", got, want)
	}
}

// line returns the next line, which must come alone.
func (w *watch) line() fleet.LogLine {
	w.t.Helper()
	logs := w.logs()
	if len(logs.Lines) != 1 {
		w.t.Fatalf("got %+v, want one line", logs)
	}
	return logs.Lines[0]
}

func newLogs(t *testing.T, url string) *fanout.Logs {
	t.Helper()
	f := connect(t, url, nil)
	eventually(t, "connected", f.Connected)
	return fanout.NewLogs(f, func() string { return "F1" })
}

func TestReadAlong(t *testing.T) {
	n := startNATS(t, embedded.NATSConfig{})
	a, l := startLogging(t, n.URL()), newLogs(t, n.URL())
	one, all, other := watchLogs(t, l, route), watchLogs(t, l, script.Name{Tenant: "acme"}), watchLogs(t, l, script.Name{Tenant: "shop"})
	for _, w := range []*watch{one, all, other} {
		w.state(fleet.LogsListening)
	}
	for _, want := range []string{"acme/route", "acme/", "shop/"} {
		m := a.asked()
		if got := m.GetTenant() + "/" + m.GetName(); got != want || m.GetFleet() != "F1" || m.GetLasts().AsDuration() != 15*time.Second || time.Since(m.GetSentAt().AsTime()).Abs() > time.Minute {
			t.Errorf("tail %v, want one of %s", m, want)
		}
	}
	// A second reader of the same asks for nothing more.
	again := watchLogs(t, l, route)
	again.state(fleet.LogsListening)

	auth := script.Name{Tenant: "acme", Script: "auth"}
	a.send("n1", &eventv1.Logs{Fleet: "F1", Agent: "n1", Lines: []*eventv1.LogLine{logged(route, "one"), logged(auth, "two"), logged(route, "three")}, Dropped: 4})
	a.send("n2", &eventv1.Logs{Fleet: "F1", Agent: "n2", Lines: []*eventv1.LogLine{logged(script.Name{Tenant: "shop", Script: "route"}, "last")}})
	for _, w := range []*watch{one, again} {
		got := w.logs()
		if got.Agent != "n1" || got.Dropped != 4 || len(got.Lines) != 2 || got.Lines[0].Message != "one" || got.Lines[1].Message != "three" {
			t.Errorf("a reader of the script got %+v", got)
		}
		if l := got.Lines[0]; l.Script != route || l.Version != 7 || l.Level != "info" || l.TraceID != "4bf92f3577b34da6a3ce929d0e0e4736" || time.Since(l.Time).Abs() > time.Minute {
			t.Errorf("line %+v", l)
		}
	}
	if got := all.logs(); len(got.Lines) != 3 {
		t.Errorf("a reader of the tenant got %+v", got)
	}
	// Of another tenant's lines, and what was left out among them, nobody else hears.
	if got := other.logs(); got.Agent != "n2" || got.Dropped != 0 || len(got.Lines) != 1 || got.Lines[0].Message != "last" {
		t.Errorf("a reader of another tenant got %+v", got)
	}
}

// TestAskedWhileSomebodyReads: agents are asked again and again, and no more when the
// last reader has gone.
func TestAskedWhileSomebodyReads(t *testing.T) {
	t.Parallel()
	n := startNATS(t, embedded.NATSConfig{})
	a, l := startLogging(t, n.URL()), newLogs(t, n.URL())
	first, second := watchLogs(t, l, route), watchLogs(t, l, route)
	first.state(fleet.LogsListening)
	second.state(fleet.LogsListening)
	a.asked()
	first.stop()
	a.asked() // for the second alone
	if !a.heard() {
		t.Error("nobody hears logs while somebody reads")
	}
	second.stop()
	eventually(t, "logs are not heard, as nobody reads", func() bool { return !a.heard() })
	// Who comes after that is served as the first was.
	third := watchLogs(t, l, route)
	third.state(fleet.LogsListening)
	a.asked()
	a.send("n1", &eventv1.Logs{Fleet: "F1", Agent: "n1", Lines: []*eventv1.LogLine{logged(route, "hello")}})
	if got := third.line(); got.Message != "hello" {
		t.Errorf("got %+v", got)
	}
}

// heard reports whether anybody has subscribed to logs.
func (a *loggingAgent) heard() bool {
	_, err := a.nc.Request("test.logs.n9", nil, 100*time.Millisecond)
	return !errors.Is(err, nats.ErrNoResponders)
}

// TestReadersSurviveNATS: a reader gets a state that says that NATS is gone, and reads on
// when it is back.
func TestReadersSurviveNATS(t *testing.T) {
	n := startNATS(t, embedded.NATSConfig{})
	a, l := startLogging(t, n.URL()), newLogs(t, n.URL())
	w := watchLogs(t, l, route)
	w.state(fleet.LogsListening)
	a.asked()
	port := n.Port()
	n.Stop()
	w.state(fleet.LogsInterrupted)
	late := watchLogs(t, l, script.Name{Tenant: "acme"})
	late.state(fleet.LogsInterrupted)
	startNATS(t, embedded.NATSConfig{Port: port})
	w.state(fleet.LogsListening)
	late.state(fleet.LogsListening)
	a.asked() // of both, in either order
	a.asked()
	a.send("n1", &eventv1.Logs{Fleet: "F1", Agent: "n1", Lines: []*eventv1.LogLine{logged(route, "back")}})
	for _, w := range []*watch{w, late} {
		if got := w.line(); got.Message != "back" {
			t.Errorf("got %+v", got)
		}
	}
}

// TestSlowReader: a reader that does not take its lines misses some, gets their number, and
// holds up nobody.
func TestSlowReader(t *testing.T) {
	n := startNATS(t, embedded.NATSConfig{})
	a, l := startLogging(t, n.URL()), newLogs(t, n.URL())
	slow, quick := watchLogs(t, l, route), watchLogs(t, l, route)
	slow.state(fleet.LogsListening)
	quick.state(fleet.LogsListening)
	const messages, lines = 40, 10
	for i := range messages {
		m := &eventv1.Logs{Fleet: "F1", Agent: "n1"}
		for range lines {
			m.Lines = append(m.Lines, logged(route, strings.Repeat("x", 4000)))
		}
		a.send("n1", m)
		if got := quick.logs(); len(got.Lines) != lines || got.Dropped != 0 {
			t.Fatalf("message %d: the quick one got %d lines, and %d are missing", i, len(got.Lines), got.Dropped)
		}
	}
	got, missing := 0, 0
	for got+missing < messages*lines {
		logs := slow.logs()
		got, missing = got+len(logs.Lines), missing+int(logs.Dropped)
		if logs.Dropped > 0 && logs.Agent != "" {
			t.Errorf("the registry's loss is reported as one of %s", logs.Agent)
		}
	}
	if missing == 0 || got*4000 > 3<<19 || got+missing > messages*lines {
		t.Errorf("%d lines came, and %d are said to be missing, of %d", got, missing, messages*lines)
	}
	a.send("n1", &eventv1.Logs{Fleet: "F1", Agent: "n1", Lines: []*eventv1.LogLine{logged(route, "after")}})
	if got := slow.line(); got.Message != "after" {
		t.Errorf("got %+v", got)
	}
}

// TestWhatStrangersLog: what no agent of ours sends changes nothing.
func TestWhatStrangersLog(t *testing.T) {
	n := startNATS(t, embedded.NATSConfig{})
	a, l := startLogging(t, n.URL()), newLogs(t, n.URL())
	w := watchLogs(t, l, route)
	w.state(fleet.LogsListening)
	ours := []*eventv1.LogLine{logged(route, "forged")}
	a.send("n1", &eventv1.Logs{Fleet: "F2", Agent: "n1", Lines: ours})
	a.send("n1", &eventv1.Logs{Fleet: "F1", Agent: "n2", Lines: ours})
	a.send("n1", &eventv1.Logs{Fleet: "F1", Lines: ours})
	long := strings.Repeat("n", 254)
	a.send(long, &eventv1.Logs{Fleet: "F1", Agent: long, Lines: ours})
	a.send("n1", &eventv1.Logs{Fleet: "F1", Agent: "n1", Lines: make([]*eventv1.LogLine, 5000)})
	for _, data := range []string{"", "\x08\x02", "rubbish"} {
		if err := a.nc.Publish("test.logs.n1", []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	hostile := logged(route, "a\x1b[31mred\u202e\nb\tc\u0085")
	hostile.Time, hostile.TraceId = timestamppb.New(time.Unix(0, 0)), "\x1b]0;pwned\x07"
	lines := []*eventv1.LogLine{hostile, logged(route, strings.Repeat("é", 3000))}
	for range 3 {
		lines = append(lines, logged(route, "x"))
	}
	lines[2].Level, lines[3].Name, lines[4].Tenant = "fatal", "../route", ""
	a.send("n1", &eventv1.Logs{Fleet: "F1", Agent: "n1", Lines: lines})
	got := w.logs()
	if len(got.Lines) != 2 || got.Dropped != 3 {
		t.Fatalf("got %+v, want two lines, and three that are missing", got)
	}
	if l := got.Lines[0]; l.Message != `a\x1b[31mred\u202e`+"\nb\tc"+`\u0085` || l.TraceID != "" || time.Since(l.Time).Abs() > time.Minute {
		t.Errorf("the hostile line came as %+v", l)
	}
	if l := got.Lines[1]; len(l.Message) > 4100 || !strings.HasSuffix(l.Message, "é…") {
		t.Errorf("a long message came as %d bytes, %q at its end", len(l.Message), l.Message[len(l.Message)-8:])
	}
}

// TestTooManyReaders are refused, and others are served as before.
func TestTooManyReaders(t *testing.T) {
	n := startNATS(t, embedded.NATSConfig{})
	l := newLogs(t, n.URL())
	refused := func(of script.Name) {
		t.Helper()
		if _, err, _ := watchLogs(t, l, of).next(); script.KindOf(err) != script.Limit {
			t.Errorf("one more of %s: %v, want a Limit", of, err)
		}
	}
	name := func(tenant, i int) script.Name {
		return script.Name{Tenant: fmt.Sprint("t", tenant), Script: fmt.Sprint("s", i)}
	}
	var readers []*watch
	read := func(of script.Name) {
		t.Helper()
		w := watchLogs(t, l, of)
		w.state(fleet.LogsListening)
		readers = append(readers, w)
	}
	for i := range 16 {
		read(name(0, i))
	}
	refused(name(0, 16))
	for range 48 {
		read(name(0, 0))
	}
	refused(name(0, 0))
	for tenant := range 15 {
		for i := range 16 {
			read(name(tenant+1, i))
		}
	}
	refused(route)
	read(name(1, 0)) // as another does
	readers[1].stop()
	read(route)
}

// TestWhoseLinesAreMissing: a reader hears of lines that were left out if they were
// its, also when none comes.
func TestWhoseLinesAreMissing(t *testing.T) {
	n := startNATS(t, embedded.NATSConfig{})
	a, l := startLogging(t, n.URL()), newLogs(t, n.URL())
	auth := script.Name{Tenant: "acme", Script: "auth"}
	watches := map[string]*watch{}
	for _, of := range []script.Name{route, auth, {Tenant: "acme"}, {Tenant: "shop"}} {
		w := watchLogs(t, l, of)
		w.state(fleet.LogsListening)
		watches[of.String()] = w
	}
	a.asked() // so the registry hears logs by now
	a.send("n1", &eventv1.Logs{Fleet: "F1", Agent: "n1", Dropped: 12, DroppedOf: []*eventv1.Dropped{
		{Tenant: "acme", Name: "route", Count: 3}, {Tenant: "shop", Name: "x", Count: 9},
	}})
	a.send("n1", &eventv1.Logs{Fleet: "F1", Agent: "n1", Lines: []*eventv1.LogLine{logged(auth, "one")}, Dropped: 5, DroppedOf: []*eventv1.Dropped{
		{Tenant: "acme", Count: 5}, // of some script
	}})
	for of, want := range map[string][]string{
		route.String(): {"0 3", "0 5"}, auth.String(): {"1 5"}, "acme/": {"0 3", "1 5"}, "shop/": {"0 9"},
	} {
		for _, want := range want {
			got := watches[of].logs()
			if fmt.Sprint(len(got.Lines), " ", got.Dropped) != want {
				t.Errorf("%s: %d lines and %d missing, want %s", of, len(got.Lines), got.Dropped, want)
			}
		}
	}
}
