package decisionlog_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/proto/decision"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// handed returns the record that comes of a message of the tenant acme's process.
func handed(t *testing.T, m *workerv1.Record, now time.Time) (r decision.Record, line string) {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var got workerv1.Record
	if err := proto.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	e := decisionlog.Handed(&got, "acme", false, now)
	defer e.Release()
	line = string(e.Append(nil, `{"agent":"node-1"}`))
	return parse(t, line), line
}

// TestHandover: the record of a process is that which the agent would have made.
func TestHandover(t *testing.T) {
	c := decisionlog.NewChooser(func(string) script.TenantSettings { return script.TenantSettings{} })
	e := returns(t, call("acme", `{"token":"SECRET-TOKEN","a\",\"b":{"token":1}}`, `2`), `{"x":"ü\n"}`)
	e.Decisions = &script.Decisions{Sample: 1, Mask: []string{"*.token", "token"}, Fields: []string{"input", "result", "trace_id", "staleness_ms"}}
	e.Call.Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	failed := fails(call("acme", `1`), &script.Error{Kind: script.Limit, Field: "f", Message: "too \"much\"", Line: 1, Column: 2})
	failed.Decisions = all
	for _, e := range []*decisionlog.Entry{c.Entry(e), c.Entry(failed)} {
		want := parse(t, string(e.Append(nil, `{"agent":"node-1"}`)))
		got, line := handed(t, e.Message(), e.Start.Add(e.Took))
		want.ID, want.Timestamp = got.ID, got.Timestamp.In(want.Timestamp.Location())
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nis not\n%+v", line, want)
		}
	}
}

// TestAHostileProcess: whatever it says, the record is one of its tenant, and one line of JSON.
func TestAHostileProcess(t *testing.T) {
	now := time.Now()
	const inject = "\",\"tenant\":\"shop\",\"x\":\"\n"
	got, line := handed(t, &workerv1.Record{
		StartUnixNanos: 1, TookNanos: -5, Script: "../shop/route", Version: 1, Digest: []byte("short"), Revision: -1, StalenessNanos: -1,
		TraceId: inject, SpanId: inject, Protocol: inject, Caller: "uid 0", Instructions: 1,
		Error: &scriptv1.Error{Kind: inject, Field: inject + strings.Repeat("f", 5000), Message: inject + strings.Repeat("m", 5000), Line: -1, Column: -1},
		Input: []byte(`1,"tenant":"shop"`), Result: []byte("[1,\n2"), Arguments: -1, Results: -1,
		Masked: []byte(`"/a"],"tenant":"shop","y":["`), Erased: []byte(`"/b"`), Truncated: []byte(strings.Repeat(`"x",`, 100_000) + `"x"`),
		Fields: ^uint32(0),
	}, now)
	if strings.Contains(line, "\n") || strings.Count(line, `"tenant":`) != 1 || len(line) > 10_000 {
		t.Errorf("the record is %s", line)
	}
	if got.Tenant != "acme" || got.Script+got.Path+got.Digest+got.TraceID+got.SpanID+got.Protocol != "" || got.Outcome != "INTERNAL" ||
		!got.Timestamp.Equal(now) || got.Input != nil || got.Result != nil || !reflect.DeepEqual(got.Erased, []string{"/b", "/input", "/result"}) {
		text, _ := json.Marshal(got)
		t.Errorf("the record is %s", text)
	}
}
