package scriptctl_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// rollout is a registry that pins what it is asked to, and then tells of the
// fleet what the test wants: one stream after the other.
type rollout struct {
	registryv1.UnimplementedRegistryServer
	streams chan []*registryv1.ScriptStatus
}

func released(name string) script.Release {
	v := script.Version{Number: 4, Digest: script.DigestOf([]byte(name)), Engine: "lua"}
	return script.Release{
		Name: script.Name{Tenant: "acme", Script: name}, Revision: 7, Active: v, Latest: 4, Pinned: true, Enabled: true, Retained: []script.Version{v},
	}
}

func (*rollout) Pin(_ context.Context, m *registryv1.PinRequest) (*registryv1.PinResponse, error) {
	return &registryv1.PinResponse{Release: wire.FromRelease(released(m.GetName())), Changed: true}, nil
}

func (r *rollout) WatchStatus(_ *registryv1.WatchStatusRequest, stream grpc.ServerStreamingServer[registryv1.WatchStatusResponse]) error {
	select {
	case statuses := <-r.streams:
		for _, s := range statuses {
			m := &registryv1.FleetStatus{Scripts: []*registryv1.ScriptStatus{s}}
			if err := stream.Send(&registryv1.WatchStatusResponse{Status: m}); err != nil {
				return err
			}
		}
		return wire.ToStatus(script.Errorf(script.Unavailable, "", "going away"))
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

func TestWait(t *testing.T) {
	at := func(revision script.Revision, active, failed, unknown int32) *registryv1.ScriptStatus {
		r := released("route")
		r.Revision = revision
		s := &registryv1.ScriptStatus{
			Release: wire.FromRelease(r), Desired: 3, Active: active, Failed: failed, Unknown: unknown,
			Converged: active+unknown == 3, SlowestAgent: "agent-3",
		}
		if failed > 0 {
			s.Failures = []*registryv1.AgentFailure{{Agent: "agent-3", Error: wire.FromError(script.Errorf(script.Limit, "", "disk full"))}}
		}
		return s
	}
	tests := []struct {
		name    string
		streams [][]*registryv1.ScriptStatus
		code    int
		want    []string
	}{
		{"converges", [][]*registryv1.ScriptStatus{{at(7, 1, 0, 0), at(7, 3, 0, 0)}}, 0, []string{"active on 3/3 agents\n"}},
		{"the release before is not meant", [][]*registryv1.ScriptStatus{{at(6, 3, 0, 0), at(7, 2, 0, 1)}}, 0, []string{"active on 2/3 agents, 1 unknown\n"}},
		{"a later release will do", [][]*registryv1.ScriptStatus{{at(8, 3, 0, 0)}}, 0, []string{"active on 3/3"}},
		{"the registry restarts", [][]*registryv1.ScriptStatus{{at(7, 1, 0, 0)}, {at(7, 3, 0, 0)}}, 0, []string{"active on 3/3"}},
		{"an agent cannot", [][]*registryv1.ScriptStatus{{at(7, 1, 1, 0), at(7, 2, 1, 0)}}, 7, []string{"error: acme/route v4 ", "active on 2/3 agents, 1 failed: agent-3: disk full\n"}},
		{"the time is up", [][]*registryv1.ScriptStatus{{at(7, 2, 0, 0)}}, 7, []string{"active on 2/3 agents, waiting for agent-3 after 1s\n"}},
		{"nothing heard", nil, 7, []string{"error: acme/route: the registry had nothing to say of revision 7 after 1s\n"}},
	}
	for _, terminal := range []bool{false, true} {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				r := &rollout{streams: make(chan []*registryv1.ScriptStatus, len(tt.streams))}
				for _, s := range tt.streams {
					r.streams <- s
				}
				var buf bytes.Buffer
				code := scriptctl.Run(t.Context(), scriptctl.Streams{
					In: strings.NewReader(""), Out: &buf, Err: io.Writer(&buf), ErrTerminal: terminal, OutTerminal: terminal,
					Size: func() (int, int) { return 120, 24 },
				}, []string{"pin", "acme/route", "4", "--author", "ada", "--wait", "--timeout", "1s", "--registry", serveRollout(t, r)})
				if code != tt.code {
					t.Errorf("exit code %d, want %d", code, tt.code)
				}
				for _, want := range tt.want {
					if !strings.Contains(buf.String(), want) {
						t.Errorf("got %q, want %q in it", buf.String(), want)
					}
				}
				if bar := strings.Contains(buf.String(), "[######---"); tt.name == "converges" && bar != terminal {
					t.Errorf("terminal: %v, but a progress bar: %v in %q", terminal, bar, buf.String())
				}
			})
		}
	}
}

func serveRollout(t *testing.T, r *rollout) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	registryv1.RegisterRegistryServer(server, r)
	go server.Serve(ln)
	t.Cleanup(server.Stop)
	return "unix:" + path
}
