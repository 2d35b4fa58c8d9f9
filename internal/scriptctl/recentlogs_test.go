package scriptctl_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
)

// RecentLogs answers with what the chatter remembers.
func (c *chatter) RecentLogs(m *registryv1.RecentLogsRequest, stream grpc.ServerStreamingServer[registryv1.RecentLogsResponse]) error {
	c.filter.Store(m)
	for _, resp := range c.recent {
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
	return nil
}

// recently is an answer with two lines, and with what some agents say.
func recently(r *registryv1.QueryResult, truncated, evicted bool) []*registryv1.RecentLogsResponse {
	return []*registryv1.RecentLogsResponse{
		{Lines: []*registryv1.RecentLogLine{
			{Agent: "n1", Line: said("info", "one\n\x1b[31mtwo", "")}, {Agent: "edge-2", Line: said("warn", "three", "4bf92f3577b34da6a3ce929d0e0e4736")},
		}},
		{Truncated: truncated, Evicted: evicted, Result: r},
	}
}

func TestRecentLogs(t *testing.T) {
	at := saidAt.Local().Format("2006-01-02 15:04:05.000")
	lines := at + ` n1 INFO  acme/route@7 one\n [31mtwo` + "\n" + at + " edge-2 WARN  acme/route@7 [4bf92f3577b34da6a3ce929d0e0e4736] three\n"
	whole := &registryv1.QueryResult{Answered: 2}
	tests := []struct {
		name   string
		args   []string
		recent []*registryv1.RecentLogsResponse
		code   int
		out    string
		err    string
	}{
		{"all", nil, recently(whole, false, false), 0, lines, ""},
		{
			"not all", nil, recently(whole, true, true), 0, lines,
			"these are the newest 2 lines; --tail shows up to 10000, and --since, --level, --node and --grep choose among them\n" +
				"agents no longer keep all lines of that age: newer ones took their room\n",
		},
		{"as many as asked for", []string{"--tail", "2"}, recently(whole, true, false), 0, lines, ""},
		{
			"some agents", nil, recently(&registryv1.QueryResult{
				Answered: 1, Silent: 1, SilentAgents: []string{"n3"}, Older: 7, OlderAgents: []string{"a", "b", "c", "d", "e\x1b", "f", "g"},
				Failed: 2, Failures: []*registryv1.QueryFailure{{Agent: "n4", Error: &scriptv1.Error{Message: "it is\x1b busy"}}},
			}, false, false),
			0, lines,
			"agents a, b, c, d, e  and 2 more are too old to answer: upgrade agentd there\nagent n3 did not answer in time\n" +
				"agent n4 has no whole answer: it is  busy\n1 more agents have no whole answer\n",
		},
		{
			"no agent answers", nil, recently(&registryv1.QueryResult{Silent: 2, SilentAgents: []string{"n1", "n2"}}, false, false), 5, "",
			"agents n1, n2 did not answer in time\nerror: no agent answered: do the users of NATS have the subjects PREFIX.query",
		},
		{
			"no whole answer", nil, recently(&registryv1.QueryResult{Failed: 2, Failures: []*registryv1.QueryFailure{
				{Agent: "n4", Error: &scriptv1.Error{Kind: "LIMIT", Message: "it is busy"}}, {Agent: "n5", Error: &scriptv1.Error{Kind: "LIMIT", Message: "so is it"}},
			}}, false, false),
			4, "", "error: no agent has a whole answer: agent n4: it is busy\n",
		},
		{
			"old agents", nil, recently(&registryv1.QueryResult{Older: 1, OlderAgents: []string{"n1"}}, false, false), 5, "",
			"agent n1 is too old to answer: upgrade agentd there\nerror: all agents are too old to answer: upgrade agentd\n",
		},
		{"no agents", nil, recently(&registryv1.QueryResult{}, false, false), 3, "", "error: no connected agent follows acme: scriptctl agents lists them\n"},
		{
			"no such agents",
			[]string{"--node", "x", "--node", "y-*"},
			recently(&registryv1.QueryResult{}, false, false), 3, "",
			"error: --node: no connected agent that follows acme matches x, y-*: scriptctl agents lists them\n",
		},
		{"a registry that goes away", nil, recently(whole, false, false)[:1], 5, "", "error: the registry at unix:"},
		{
			"json",
			[]string{"-o", "json"},
			recently(whole, false, true), 0,
			`{"time":"2026-01-02T03:04:05.006Z","agent":"n1","script":"acme/route","version":7,"level":"info","message":"one\n\u001b[31mtwo"}` + "\n" +
				`{"time":"2026-01-02T03:04:05.006Z","agent":"edge-2","script":"acme/route","version":7,"level":"warn","message":"three","traceId":"4bf92f3577b34da6a3ce929d0e0e4736"}` + "\n",
			`{"notice":{"message":"agents no longer keep all lines of that age: newer ones took their room"}}` + "\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &chatter{recent: tt.recent}
			var out, errs bytes.Buffer
			code := scriptctl.Run(t.Context(), scriptctl.Streams{In: strings.NewReader(""), Out: &out, Err: &errs},
				append([]string{"logs", "acme/route", "--registry", c.serve(t)}, tt.args...))
			if code != tt.code || out.String() != tt.out || !strings.HasPrefix(errs.String(), tt.err) || tt.err == "" && errs.Len() > 0 {
				t.Errorf("exit code %d, printed\n%s%s\nwant %d,\n%s%s", code, out.String(), errs.String(), tt.code, tt.out, tt.err)
			}
		})
	}
}

// TestRecentLogsFilter: the registry is asked for what the flags say.
func TestRecentLogsFilter(t *testing.T) {
	c := &chatter{recent: recently(&registryv1.QueryResult{Answered: 1}, false, false)}
	target := c.serve(t)
	for _, tt := range []struct{ args, want string }{
		{"acme", "acme  [] 0 info  <nil> 1000"},
		{
			"acme/route --node edge-* --node n1 --version 7 --level error --grep time.*out --tail 20 --since 1h",
			"acme route [edge-* n1] 7 error time.*out about 1h 20",
		},
		{"acme --agent n1", "acme  [n1] 0 info  <nil> 1000"},
	} {
		var out, errs bytes.Buffer
		if code := scriptctl.Run(t.Context(), scriptctl.Streams{In: strings.NewReader(""), Out: &out, Err: &errs},
			append([]string{"logs", "--registry", target}, strings.Fields(tt.args)...)); code != 0 {
			t.Fatalf("%s: exit code %d, %s", tt.args, code, errs.String())
		}
		m := c.filter.Load()
		since := "<nil>"
		if m.GetSince() != nil {
			since = "about " + strings.TrimSuffix(m.GetSince().AsDuration().Truncate(3600e9).String(), "0m0s")
		}
		got := fmt.Sprint(m.GetTenant(), " ", m.GetName(), " ", m.GetAgents(), " ", m.GetVersion(), " ", m.GetLevel(), " ", m.GetGrep(), " ", since, " ", m.GetLimit())
		if got != tt.want {
			t.Errorf("%s: asks for %q, want %q", tt.args, got, tt.want)
		}
	}
}
