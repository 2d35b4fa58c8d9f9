package scriptctl_test

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// chatter is a registry whose scripts have much to say: in one stream after the other,
// each of which ends as if the registry restarted. The last goes on for ever.
type chatter struct {
	registryv1.UnimplementedRegistryServer
	streams [][]*registryv1.WatchLogsResponse
	asked   atomic.Int32
	recent  []*registryv1.RecentLogsResponse // what it remembers
	filter  atomic.Pointer[registryv1.RecentLogsRequest]
}

func (c *chatter) WatchLogs(m *registryv1.WatchLogsRequest, stream grpc.ServerStreamingServer[registryv1.WatchLogsResponse]) error {
	if m.GetName() == "none" {
		return wire.ToStatus(script.Errorf(script.NotFound, "name", "there is no script acme/none"))
	}
	n := int(c.asked.Add(1)) - 1
	for _, resp := range c.streams[n] {
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
	if n == len(c.streams)-1 {
		<-stream.Context().Done()
	}
	return wire.ToStatus(script.Errorf(script.Unavailable, "", "this registry is stopping"))
}

func (c *chatter) serve(t *testing.T) (target string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	registryv1.RegisterRegistryServer(server, c)
	go server.Serve(ln)
	t.Cleanup(server.Stop)
	return "unix:" + path
}

var saidAt = time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)

func said(level, message, trace string) *eventv1.LogLine {
	return &eventv1.LogLine{
		Time: timestamppb.New(saidAt), Tenant: "acme", Name: "route", Version: 7,
		Level: level, Message: message, TraceId: trace,
	}
}

var (
	listens   = &registryv1.WatchLogsResponse{State: registryv1.LogsState_LOGS_STATE_LISTENING}
	isLost    = &registryv1.WatchLogsResponse{State: registryv1.LogsState_LOGS_STATE_INTERRUPTED}
	someLines = &registryv1.WatchLogsResponse{Logs: &eventv1.Logs{Agent: "n1", Dropped: 2, Lines: []*eventv1.LogLine{
		said("info", "one\n\x1b[31mtwo", ""), said("warn", "three", "4bf92f3577b34da6a3ce929d0e0e4736"),
	}}}
	otherLines = &registryv1.WatchLogsResponse{Logs: &eventv1.Logs{Agent: "edge-2", Lines: []*eventv1.LogLine{said("error", "four", "")}}}
	tooMany    = &registryv1.WatchLogsResponse{Logs: &eventv1.Logs{Dropped: 9}}
)

// TestLogs reads what a whole stream says, and stops when it says no more.
func TestLogs(t *testing.T) {
	stream := []*registryv1.WatchLogsResponse{listens, someLines, tooMany, isLost, listens, otherLines}
	at := saidAt.Local().Format("2006-01-02 15:04:05.000")
	one := at + ` n1 INFO  acme/route@7 one\n [31mtwo` + "\n"
	three := at + " n1 WARN  acme/route@7 [4bf92f3577b34da6a3ce929d0e0e4736] three\n"
	four := at + " edge-2 ERROR acme/route@7 four\n"
	const (
		start   = "listening to acme/route\n"
		dropped = "2 lines of n1 were left out: scripts log more than they may\n"
		many    = "9 lines were left out: there are more than can be read in time\n"
		outage  = "the registry has no connection to NATS: lines are missing until it is back\nlistening again\n"
	)
	tests := []struct {
		name     string
		args     []string
		terminal bool
		out, err string
	}{
		{"all", nil, false, one + three + four, start + dropped + many + outage},
		{"level", []string{"--level", "warn"}, false, three + four, start + dropped + many + outage},
		{"agents", []string{"--agent", "edge-*"}, false, four, start + many + outage},
		{
			"colours",
			[]string{"--level", "warn"},
			true,
			strings.NewReplacer("WARN ", "\x1b[33mWARN \x1b[0m", "ERROR", "\x1b[31mERROR\x1b[0m").Replace(three + four), start + dropped + many + outage,
		},
		{
			"json",
			[]string{"-o", "json", "--level", "warn"},
			false,
			`{"time":"2026-01-02T03:04:05.006Z","agent":"n1","script":"acme/route","version":7,"level":"warn","message":"three","traceId":"4bf92f3577b34da6a3ce929d0e0e4736"}` + "\n" +
				`{"time":"2026-01-02T03:04:05.006Z","agent":"edge-2","script":"acme/route","version":7,"level":"error","message":"four"}` + "\n",
			`{"notice":{"message":"` + strings.ReplaceAll(strings.TrimSpace(start+dropped+many+outage), "\n", `"}}`+"\n"+`{"notice":{"message":"`) + `"}}` + "\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &chatter{streams: [][]*registryv1.WatchLogsResponse{stream}}
			ctx, cancel := context.WithCancel(t.Context())
			out, errs := &until{text: "four", then: cancel}, &bytes.Buffer{}
			code := scriptctl.Run(ctx, scriptctl.Streams{In: strings.NewReader(""), Out: out, Err: errs, OutTerminal: tt.terminal},
				append([]string{"logs", "-f", "acme/route", "--registry", c.serve(t)}, tt.args...))
			if code != 0 || out.String() != tt.out || errs.String() != tt.err {
				t.Errorf("exit code %d, printed\n%s%s\nwant\n%s%s", code, out.String(), errs.String(), tt.out, tt.err)
			}
		})
	}
}

// until calls then once the text was printed.
type until struct {
	bytes.Buffer
	text string
	then func()
}

func (u *until) Write(p []byte) (int, error) {
	if strings.Contains(string(p), u.text) {
		defer u.then()
	}
	return u.Buffer.Write(p)
}

// TestLogsSurviveTheRegistry: a reader sees an error when the registry goes, and reads
// on at the next.
func TestLogsSurviveTheRegistry(t *testing.T) {
	c := &chatter{streams: [][]*registryv1.WatchLogsResponse{{listens, someLines}, {listens, otherLines}}}
	ctx, cancel := context.WithCancel(t.Context())
	out, errs := &until{text: "four", then: cancel}, &bytes.Buffer{}
	code := scriptctl.Run(ctx, scriptctl.Streams{In: strings.NewReader(""), Out: out, Err: errs}, []string{"logs", "-f", "acme", "--registry", c.serve(t)})
	want := "listening to all scripts of acme\n2 lines of n1 were left out: scripts log more than they may\nerror: this registry is stopping\nlistening again\n"
	if code != 0 || strings.Count(out.String(), "\n") != 3 || errs.String() != want {
		t.Errorf("exit code %d, printed\n%s%swant\n%s", code, out.String(), errs.String(), want)
	}
}

// TestLogsEnd: without -f they end by themselves, and nobody waits for a script that is
// not there.
func TestLogsEnd(t *testing.T) {
	tests := []struct {
		args []string
		code int
		err  string
	}{
		{[]string{"acme/route", "--for", "300ms"}, 0, "listening to acme/route\n"},
		{[]string{"-f", "acme/none"}, 3, "error: there is no script acme/none\n"},
		{[]string{"-f", "acme/route", "--registry", "unix:none.sock"}, 5, "error: cannot reach the registry at unix:none.sock"},
		{[]string{"-f", "acme/route", "--for", "1s"}, 2, "error: if any flags in the group [follow for] are set"},
		{[]string{"acme/route", "--for", "-1s"}, 2, "error: --for: -1s is not above 0\n"},
		{[]string{"acme/route", "--for", "0s"}, 2, "error: --for: 0s is not above 0\n"},
		{[]string{"acme/route", "--tail", "0"}, 2, "error: --tail: is 0, want 1 to 10000\n"},
		{[]string{"acme/route", "--tail", "10001"}, 2, "error: --tail: is 10001, want 1 to 10000\n"},
		{[]string{"acme/route", "--since", "yesterday"}, 2, `error: --since: "yesterday" is neither how long ago`},
		{[]string{"acme/route", "--grep", "("}, 2, "error: --grep: is no RE2 expression: error parsing regexp: missing closing )"},
		{[]string{"acme/route", "--node", "["}, 2, `error: --node: "[" is no pattern`},
		{[]string{"acme/route", "--level", "debug"}, 2, `error: --level: "debug" is no level: want info, warn, error` + "\n"},
		{[]string{"acme/route", "--agent", "["}, 2, `error: --node: "[" is no pattern`},
		{[]string{"acme/route@7"}, 2, "error: name: "},
		{[]string{"Acme"}, 2, "error: tenant: "},
		{nil, 2, "error: logs wants a tenant or a script: scriptctl logs tenant/name\n"},
	}
	c := &chatter{streams: [][]*registryv1.WatchLogsResponse{{listens}}}
	target := c.serve(t)
	for _, tt := range tests {
		var out, errs bytes.Buffer
		code := scriptctl.Run(t.Context(), scriptctl.Streams{In: strings.NewReader(""), Out: &out, Err: &errs},
			append([]string{"logs", "--registry", target}, tt.args...))
		if code != tt.code || !strings.HasPrefix(errs.String(), tt.err) || out.Len() > 0 {
			t.Errorf("%v: exit code %d, %s%s\nwant %d, %s", tt.args, code, out.String(), errs.String(), tt.code, tt.err)
		}
	}
}
