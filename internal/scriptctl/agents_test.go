package scriptctl_test

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// infirmary is a registry that has agents in every trouble.
type infirmary struct {
	registryv1.UnimplementedRegistryServer
}

func (infirmary) ListAgents(context.Context, *registryv1.ListAgentsRequest) (*registryv1.ListAgentsResponse, error) {
	failure := func(name string, line int) *registryv1.ScriptFailure {
		return &registryv1.ScriptFailure{
			Tenant: "acme", Name: name, Revision: 7,
			Error: wire.FromError(&script.Error{Kind: script.Script, Message: "bad\x1b[31m", Line: line}),
		}
	}
	return &registryv1.ListAgentsResponse{Agents: []*registryv1.AgentStatus{
		{Agent: "n1", ActivatedRevision: 9, UnheardFor: durationpb.New(1200 * time.Millisecond), Software: "v1", DiskKeys: []string{"0123456789abcdef"}},
		{Agent: "n2", ActivatedRevision: 7, Behind: 2, Lag: durationpb.New(1500 * time.Millisecond), Tenants: []string{"acme", "shop-*"}},
		{
			Agent: "n3", ActivatedRevision: 9, Failed: 3, Drifts: 1, Labels: map[string]string{"zone": "b", "pool": "edge"},
			Failures: []*registryv1.ScriptFailure{failure("route", 4), failure("auth", 0)},
		},
		{
			Agent: "n4", ActivatedRevision: 5, Behind: 4, Unknown: true, UnheardFor: durationpb.New(time.Minute), Lag: durationpb.New(time.Hour),
			Software: "v1\x1b[2J", Labels: map[string]string{"zone": "a\tb\u009b2J"},
		},
	}}, nil
}

func TestAgentsInTrouble(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	registryv1.RegisterRegistryServer(server, infirmary{})
	go server.Serve(ln)
	t.Cleanup(server.Stop)
	run := func(args ...string) string {
		var out bytes.Buffer
		code := scriptctl.Run(t.Context(), scriptctl.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, append(args, "--registry", "unix:"+path))
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, out.String())
		}
		return out.String()
	}
	want := strings.TrimPrefix(`
AGENT   STATUS                 REVISION   LAG      HEARD      SOFTWARE   TENANTS       KEYS               LABELS
n1      current                9          -        1.2s ago   v1         *             0123456789abcdef   -
n2      2 behind               7          1.5s     0s ago     -          acme,shop-*   -                  -
n3      3 failed, drifted 1x   9          -        0s ago     -          *             -                  pool=edge,zone=b
n4      unknown                5          1h0m0s   1m0s ago   v1 [2J     *             -                  zone=a b 2J
n3: acme/route line 4: bad [31m
n3: acme/auth: bad [31m
n3: and 1 more
`, "\n")
	if got := run("agents"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	got := run("agents", "-o", "json")
	for _, want := range []string{`"lagSeconds": 1.5,`, `"line": 4`, `"script": "acme/route",`, `"unknown": true,`, `"tenants": [
      "acme",`, `"failed": 3,`} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %s in it", got, want)
		}
	}
}
