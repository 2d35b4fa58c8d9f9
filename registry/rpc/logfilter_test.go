package rpc_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/scriptorium-dev/scriptorium/engine"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// choir is a tenant whose logs are of two agents, with lines of all levels and of two versions.
const choir = "choir"

func sing(of script.Name, yield func(fleet.Logs, error) bool) {
	line := func(version uint64, level engine.Level, message string) fleet.LogLine {
		return fleet.LogLine{Time: saidAt, Script: of, Version: version, Level: level, Message: message}
	}
	for _, logs := range []fleet.Logs{
		{State: fleet.LogsListening},
		{Agent: "edge-1", Lines: []fleet.LogLine{line(1, engine.Info, "one"), line(1, engine.Warn, "two"), line(2, engine.Error, "three")}},
		{Agent: "core-1", Lines: []fleet.LogLine{line(2, engine.Info, "four")}},
		{Agent: "core-1", Lines: []fleet.LogLine{line(2, engine.Info, "five")}, Dropped: 3},
		{Dropped: 4},
	} {
		if !yield(logs, nil) {
			return
		}
	}
	yield(fleet.Logs{}, script.Errorf(script.Unavailable, "", "this is all"))
}

func TestWatchLogsFilters(t *testing.T) {
	b := newBench(t)
	for name, test := range map[string]struct {
		req  *registryv1.WatchLogsRequest
		want string
	}{
		"nothing":   {&registryv1.WatchLogsRequest{}, "LISTENING edge-1:one edge-1:two edge-1:three core-1:four core-1:-3 core-1:five :-4"},
		"agents":    {&registryv1.WatchLogsRequest{Agents: []string{"edge-*", "other"}}, "LISTENING edge-1:one edge-1:two edge-1:three :-4"},
		"version":   {&registryv1.WatchLogsRequest{Version: 2}, "LISTENING edge-1:three core-1:four core-1:-3 core-1:five :-4"},
		"info":      {&registryv1.WatchLogsRequest{Level: "info", Version: 1}, "LISTENING edge-1:one edge-1:two core-1:-3 :-4"},
		"warn":      {&registryv1.WatchLogsRequest{Level: "warn"}, "LISTENING edge-1:two edge-1:three core-1:-3 :-4"},
		"error":     {&registryv1.WatchLogsRequest{Level: "error"}, "LISTENING edge-1:three core-1:-3 :-4"},
		"grep":      {&registryv1.WatchLogsRequest{Grep: "^(t|f)[hi]"}, "LISTENING edge-1:three core-1:-3 core-1:five :-4"},
		"all of it": {&registryv1.WatchLogsRequest{Agents: []string{"edge-?"}, Version: 1, Level: "warn", Grep: "(?i)TWO"}, "LISTENING edge-1:two :-4"},
	} {
		test.req.Tenant = choir
		if got := watched(t, b, test.req); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// watched returns all that a watch sends, in short.
func watched(t *testing.T, b *bench, req *registryv1.WatchLogsRequest) string {
	t.Helper()
	stream, err := b.WatchLogs(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		m, err := stream.Recv()
		if status.Code(err) == codes.Unavailable {
			return strings.Join(got, " ")
		}
		if err != nil {
			t.Fatal(err)
		}
		if m.GetLogs() == nil {
			got = append(got, strings.TrimPrefix(m.GetState().String(), "LOGS_STATE_"))
		}
		if n := m.GetLogs().GetDropped(); n > 0 {
			got = append(got, m.GetLogs().GetAgent()+":-"+string(rune('0'+n)))
		}
		for _, line := range m.GetLogs().GetLines() {
			got = append(got, m.GetLogs().GetAgent()+":"+line.GetMessage())
		}
	}
}

func TestWatchLogsRefusesFilters(t *testing.T) {
	b := newBench(t)
	for _, test := range []struct {
		req   *registryv1.WatchLogsRequest
		field string
	}{
		{&registryv1.WatchLogsRequest{Agents: []string{"["}}, "agents"},
		{&registryv1.WatchLogsRequest{Agents: []string{""}}, "agents"},
		{&registryv1.WatchLogsRequest{Agents: []string{strings.Repeat("a", 254)}}, "agents"},
		{&registryv1.WatchLogsRequest{Agents: slices.Repeat([]string{"a"}, 65)}, "agents"},
		{&registryv1.WatchLogsRequest{Level: "debug"}, "level"},
		{&registryv1.WatchLogsRequest{Grep: "("}, "grep"},
		{&registryv1.WatchLogsRequest{Grep: strings.Repeat("a", 1025)}, "grep"},
		{&registryv1.WatchLogsRequest{Grep: "((a{100}){100}){100}"}, "grep"},
	} {
		test.req.Tenant = "acme"
		stream, err := b.WatchLogs(t.Context(), test.req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument || detail(t, err).GetField() != test.field {
			t.Errorf("%.100v: %v, want InvalidArgument at %q", test.req, err, test.field)
		}
	}
}
