package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/agent"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/logring"
	"github.com/scriptorium-dev/scriptorium/engine"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// asker sends queries to the agent.
type asker struct {
	t       *testing.T
	r       *registry
	answers *nats.Subscription
	asked   int
}

func newAsker(t *testing.T, r *registry) *asker {
	t.Helper()
	answers, err := r.conn.SubscribeSync(subjects.AllAnswers())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	return &asker{t: t, r: r, answers: answers}
}

// ask returns the parts of the agent's answer.
func (a *asker) ask(tenant string, maxBytes int64, m *eventv1.RecentLogsQuery) (parts []*eventv1.Answer) {
	a.t.Helper()
	return a.await(a.send(&eventv1.Query{Tenant: tenant, MaxBytes: maxBytes, Kind: &eventv1.Query_RecentLogs{RecentLogs: m}}))
}

// send sends a query, and returns its id.
func (a *asker) send(q *eventv1.Query) string {
	a.asked++
	q.Fleet, q.Id, q.SentAt, q.Timeout = "f", fmt.Sprint("q", a.asked), timestamppb.Now(), durationpb.New(30*time.Second)
	a.r.send(subjects.Query(), q)
	return q.GetId()
}

// await returns the parts of the next answer, which is to the query.
func (a *asker) await(id string) (parts []*eventv1.Answer) {
	a.t.Helper()
	for {
		msg, err := a.answers.NextMsg(30 * time.Second)
		if err != nil {
			a.t.Fatal(err)
		}
		var env eventv1.Envelope
		var part eventv1.Answer
		if err := proto.Unmarshal(msg.Data, &env); err != nil {
			a.t.Fatal(err)
		}
		if err := proto.Unmarshal(env.GetPayload(), &part); err != nil {
			a.t.Fatal(err)
		}
		if msg.Subject != subjects.Answers("node-1") || part.GetAgent() != "node-1" || part.GetId() != id || int(part.GetNumber()) != len(parts) {
			a.t.Fatalf("on %s: %.300v", msg.Subject, &part)
		}
		if parts = append(parts, &part); part.GetLast() {
			return parts
		}
	}
}

// lines returns the lines of all parts, and how the answer ends.
func lines(parts []*eventv1.Answer) (all []*eventv1.LogLine, last *eventv1.Answer) {
	for _, p := range parts {
		all = append(all, p.GetRecentLogs().GetLines()...)
	}
	return all, parts[len(parts)-1]
}

// TestRecentLogs: the agent keeps what scripts log, and answers with what it is asked for.
func TestRecentLogs(t *testing.T) {
	r := newRegistry(t)
	r.put("acme/flags", "on")
	r.publish("edge", "hello")
	r.start()
	n := startNode(t, r, t.TempDir(), func(c *agent.Config) { c.Engines = []engine.Engine{asking{}} })
	n.answers(t, r, "acme/edge", "on 1")
	const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	var reply gateway.Reply
	if err := n.Executor().Execute(t.Context(), &gateway.Call{Script: "acme/edge", Traceparent: "00-" + traceID + "-00f067aa0ba902b7-01"}, &reply); err != nil {
		t.Fatal(err)
	}
	a := newAsker(t, r)
	got, last := lines(a.ask("acme", 1<<20, &eventv1.RecentLogsQuery{}))
	if len(got) < 2 || last.GetError() != nil || last.GetRecentLogs().GetTruncated() || last.GetRecentLogs().GetEvicted() {
		t.Fatalf("%v, %v", got, last)
	}
	if l := got[len(got)-1]; l.GetTenant() != "acme" || l.GetName() != "edge" || l.GetVersion() != 1 || l.GetLevel() != "warn" ||
		l.GetMessage() != "hello" || l.GetTraceId() != traceID || time.Since(l.GetTime().AsTime()) > 30*time.Second {
		t.Errorf("line %v", l)
	}

	// Lines of two scripts that take turns. An age means the same lines for the time between two.
	const apart = 10 * time.Second
	begun := time.Now().Add(-6 * time.Hour)
	for i := range 2000 {
		level := []engine.Level{engine.Info, engine.Warn, engine.Error}[i%3]
		n.Logs().Add(script.Name{Tenant: "shop", Script: fmt.Sprint("s", i%2)}, logring.Line{
			Time: begun.Add(time.Duration(i) * apart), Version: uint64(i % 5), Level: level, Message: fmt.Sprintf("%04d %s", i, strings.Repeat("x", 200)),
		})
	}
	parts := a.ask("shop", 2<<20, &eventv1.RecentLogsQuery{})
	got, last = lines(parts)
	if len(got) != 2000 || len(parts) < 4 || last.GetRecentLogs().GetTruncated() {
		t.Errorf("%d lines in %d parts, truncated %v", len(got), len(parts), last.GetRecentLogs().GetTruncated())
	}
	for i, l := range got {
		if !strings.HasPrefix(l.GetMessage(), fmt.Sprintf("%04d ", i)) {
			t.Fatalf("line %d: %.20q", i, l.GetMessage())
		}
	}
	for what, test := range map[string]struct {
		bytes     int64
		query     *eventv1.RecentLogsQuery
		want      int
		truncated bool
		newest    string
	}{
		"little room":        {10_000, &eventv1.RecentLogsQuery{}, 34, true, "1999"},
		"no room":            {100, &eventv1.RecentLogsQuery{}, 0, true, ""},
		"a limit":            {1 << 20, &eventv1.RecentLogsQuery{Limit: 7}, 7, true, "1999"},
		"a script":           {1 << 20, &eventv1.RecentLogsQuery{Name: "s0"}, 1000, false, "1998"},
		"all of a script":    {1 << 20, &eventv1.RecentLogsQuery{Name: "s0", Limit: 1000}, 1000, false, "1998"},
		"a version":          {1 << 20, &eventv1.RecentLogsQuery{Version: 3}, 400, false, "1998"},
		"a level":            {1 << 20, &eventv1.RecentLogsQuery{Level: "warn"}, 1333, false, "1999"},
		"an expression":      {1 << 20, &eventv1.RecentLogsQuery{Grep: "^0?1[0-9]{2} "}, 100, false, "0199"},
		"an age":             {1 << 20, &eventv1.RecentLogsQuery{Since: durationpb.New(time.Since(begun.Add(1899 * apart)))}, 100, false, "1999"},
		"nothing":            {1 << 20, &eventv1.RecentLogsQuery{Grep: "none"}, 0, false, ""},
		"a script of nobody": {1 << 20, &eventv1.RecentLogsQuery{Name: "edge"}, 0, false, ""},
	} {
		got, last := lines(a.ask("shop", test.bytes, test.query))
		if len(got) != test.want || last.GetRecentLogs().GetTruncated() != test.truncated || last.GetError() != nil ||
			len(got) > 0 && !strings.HasPrefix(got[len(got)-1].GetMessage(), test.newest) {
			t.Errorf("%s: %d lines, want %d; %.300v", what, len(got), test.want, last)
		}
		if !slices.IsSortedFunc(got, func(a, b *eventv1.LogLine) int { return strings.Compare(a.GetMessage(), b.GetMessage()) }) {
			t.Errorf("%s: not in order", what)
		}
	}
	if _, last := lines(a.ask("shop", 1<<20, &eventv1.RecentLogsQuery{Grep: "("})); last.GetError().GetKind() != string(script.Invalid) || last.GetError().GetField() != "grep" {
		t.Errorf("a wrong expression: %v", last)
	}
}

// TestRecentLogsThatAreGone: the agent says that it no longer keeps all lines of that age.
func TestRecentLogsThatAreGone(t *testing.T) {
	r := newRegistry(t)
	r.publish("edge", "hello")
	r.start()
	n := startNode(t, r, t.TempDir())
	n.answers(t, r, "acme/edge", "hello")
	begun := time.Now().Add(-time.Hour)
	for i := range 3600 {
		n.Logs().Add(script.Name{Tenant: "acme", Script: "edge"}, logring.Line{Time: begun.Add(time.Duration(i) * time.Second), Level: engine.Info, Message: strings.Repeat("x", 4000)})
	}
	a := newAsker(t, r)
	for ago, evicted := range map[time.Duration]bool{time.Minute: false, 50 * time.Minute: true, 0: false} {
		q := &eventv1.RecentLogsQuery{}
		if ago > 0 {
			q.Since = durationpb.New(ago)
		}
		if got, last := lines(a.ask("acme", 4<<20, q)); last.GetRecentLogs().GetEvicted() != evicted || len(got) == 0 {
			t.Errorf("since %v: %d lines, evicted %v", ago, len(got), last.GetRecentLogs().GetEvicted())
		}
	}
	// An expression that takes long is given up.
	slow := strings.Repeat("(x+x+)+", 100) + "y"
	begun = time.Now()
	_, last := lines(a.ask("acme", 1<<20, &eventv1.RecentLogsQuery{Grep: slow}))
	t.Logf("an expression took %v: %v", time.Since(begun), last.GetError())
	if last.GetError().GetKind() != string(script.Limit) {
		t.Errorf("%v", last)
	}
}
