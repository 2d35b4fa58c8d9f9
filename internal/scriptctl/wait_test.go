package scriptctl_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
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

// rollout is a registry that pins what it is asked to, and then tells of the
// fleet what the test wants: one stream after the other.
type rollout struct {
	registryv1.UnimplementedRegistryServer
	streams chan []*registryv1.ScriptStatus
	told    func()                   // called when it is asked for more than that, unless it is nil
	status  *registryv1.ScriptStatus // as it is without a watch
}

func released(name string) script.Release {
	v := script.Version{Number: 4, Digest: script.DigestOf([]byte(name)), Engine: "lua"}
	return script.Release{
		Name: script.Name{Tenant: "acme", Script: name}, Revision: 7, Active: v, Latest: 4, Pinned: true, Enabled: true, Retained: []script.Version{v},
	}
}

// tried is what is released, with version 5 as a candidate; failed says why it was given up.
func tried(revision script.Revision, failed string) script.Release {
	r := released("route")
	v := script.Version{Number: 5, Digest: script.DigestOf([]byte("five")), Engine: "lua"}
	r.Revision, r.Latest, r.Retained = revision, 5, append(r.Retained, v)
	r.Candidate = &script.Candidate{Version: v, Failed: failed}
	return r
}

func (*rollout) Get(context.Context, *registryv1.GetRequest) (*registryv1.GetResponse, error) {
	return &registryv1.GetResponse{Release: wire.FromRelease(tried(6, ""))}, nil
}

// Steer takes an abort or an approval of version 5 alone.
func (*rollout) Steer(_ context.Context, m *registryv1.SteerRequest) (*registryv1.SteerResponse, error) {
	switch {
	case m.GetVersion() != 5:
		return nil, wire.ToStatus(script.Errorf(script.Conflict, "version", "not 5 but %d", m.GetVersion()))
	case m.GetSteering() == registryv1.Steering_STEERING_APPROVE:
		return &registryv1.SteerResponse{Release: wire.FromRelease(tried(7, "")), Changed: true}, nil
	case m.GetSteering() != registryv1.Steering_STEERING_ABORT:
		return nil, wire.ToStatus(script.Errorf(script.Invalid, "steering", "is %v", m.GetSteering()))
	}
	return &registryv1.SteerResponse{Release: wire.FromRelease(tried(7, "by hand")), Changed: true}, nil
}

func (*rollout) SetEnabled(context.Context, *registryv1.SetEnabledRequest) (*registryv1.SetEnabledResponse, error) {
	return &registryv1.SetEnabledResponse{Release: wire.FromRelease(tried(7, "")), Changed: true}, nil
}

func (*rollout) Pin(_ context.Context, m *registryv1.PinRequest) (*registryv1.PinResponse, error) {
	r := released(m.GetName())
	if m.GetName() != "old" {
		r.Hold = &script.Hold{Author: m.GetAuthor()}
	}
	return &registryv1.PinResponse{Release: wire.FromRelease(r), Changed: true}, nil
}

func (r *rollout) Status(context.Context, *registryv1.StatusRequest) (*registryv1.StatusResponse, error) {
	return &registryv1.StatusResponse{Status: &registryv1.FleetStatus{Scripts: []*registryv1.ScriptStatus{r.status}}}, nil
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
	default:
		if r.told != nil {
			r.told()
		}
		<-stream.Context().Done()
		return stream.Context().Err()
	}
}

// wait runs scriptctl with --wait. Its time is up when the registry has nothing more to
// tell, and scriptctl has heard what it told; no clock has a part in that, but in a test
// that fails.
func wait(t *testing.T, streams scriptctl.Streams, statuses [][]*registryv1.ScriptStatus, args ...string) int {
	t.Helper()
	return waitUntil(t, scriptctl.ErrTimeUp, streams, statuses, args...)
}

// waitUntil is wait, and what ends it is the cause.
func waitUntil(t *testing.T, cause error, streams scriptctl.Streams, statuses [][]*registryv1.ScriptStatus, args ...string) int {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	r := &rollout{streams: make(chan []*registryv1.ScriptStatus, len(statuses)), told: func() { cancel(cause) }}
	for _, s := range statuses {
		r.streams <- s
	}
	streams.In = strings.NewReader("")
	return scriptctl.Run(ctx, streams, slices.Concat(args, []string{"--author", "ada", "--wait", "--timeout", "1m", "--registry", serveRollout(t, r)}))
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
	// trying is the release with version 5 as a candidate; failed says why it was given up.
	trying := func(revision script.Revision, failed string) *registryv1.ScriptStatus {
		return &registryv1.ScriptStatus{
			Release: wire.FromRelease(tried(revision, failed)), Desired: 3, Failed: 1, Trials: &registryv1.Trials{Passed: 2, Failed: 1},
			Failures: []*registryv1.AgentFailure{{Agent: "agent-3", Error: wire.FromError(script.Errorf(script.Script, "", "no"))}},
		}
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
		{"the time is up", [][]*registryv1.ScriptStatus{{at(7, 2, 0, 0)}}, 7, []string{"active on 2/3 agents, waiting for agent-3 after 1m0s\n"}},
		{"a candidate becomes active", [][]*registryv1.ScriptStatus{{trying(8, ""), at(9, 3, 0, 0)}}, 0, []string{"v4", "active on 3/3"}},
		{"a candidate is given up", [][]*registryv1.ScriptStatus{{trying(8, ""), trying(9, "agent-3: no")}}, 7, []string{"error: acme/route v4 ", ", candidate v5 failed: agent-3: no\n"}},
		{"a candidate goes on", [][]*registryv1.ScriptStatus{{trying(8, "")}}, 7, []string{", candidate v5 testing, passed on 2/3 agents, failed on 1 after 1m0s\n"}},
		{"nothing heard", nil, 7, []string{"error: acme/route: the registry had nothing to say of revision 7 after 1m0s\n"}},
	}
	for _, terminal := range []bool{false, true} {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				var buf bytes.Buffer
				code := wait(t, scriptctl.Streams{
					Out: &buf, Err: io.Writer(&buf), ErrTerminal: terminal, OutTerminal: terminal,
					Size: func() (int, int) { return 120, 24 },
				}, tt.streams, "pin", "acme/route", "4")
				if code != tt.code {
					t.Errorf("exit code %d, want %d", code, tt.code)
				}
				for _, want := range tt.want {
					if !strings.Contains(buf.String(), want) {
						t.Errorf("got %q, want %q in it", buf.String(), want)
					}
				}
				if bar := strings.Contains(buf.String(), "[###------]"); tt.name == "converges" && bar != terminal {
					t.Errorf("terminal: %v, but a progress bar: %v in %q", terminal, bar, buf.String())
				}
			})
		}
	}
}

// TestPinInAnOlderRegistry: one that knows no holds pins all the same, until the next publish.
func TestPinInAnOlderRegistry(t *testing.T) {
	for _, name := range []string{"old", "route"} {
		var out, warned strings.Builder
		code := wait(t, scriptctl.Streams{Out: &out, Err: &warned}, nil, "pin", "acme/"+name, "4")
		if code != 7 || strings.Contains(warned.String(), "warning: acme/old is pinned, and not held: ") != (name == "old") {
			t.Errorf("%s: exit code %d, %q", name, code, warned.String())
		}
	}
}

// An abort, and what lets a candidate go on, is done once every agent has taken it, whatever
// the candidate's tests came to.
func TestWaitForAChangeBesideACandidate(t *testing.T) {
	failure := func(agent, field, message string) *registryv1.AgentFailure {
		return &registryv1.AgentFailure{Agent: agent, Error: wire.FromError(script.Errorf(script.Script, field, "%s", message))}
	}
	at := func(failed, untested int32, slowest string, failures ...*registryv1.AgentFailure) *registryv1.ScriptStatus {
		return &registryv1.ScriptStatus{
			Release: wire.FromRelease(tried(7, "")), Desired: 3, Failed: failed, SlowestAgent: slowest, Failures: failures,
			Trials: &registryv1.Trials{Passed: 1, Failed: untested},
		}
	}
	inSteps := at(0, 0, "")
	r := tried(7, "")
	r.Settings.Rollout.Steps = []script.Step{{Percent: 10}}
	inSteps.Release = wire.FromRelease(r)
	gone := at(0, 0, "")
	gone.Unknown = 3
	wrong, full := failure("agent-1", "tests[a]", "want 1"), failure("agent-3", "", "disk full")
	enable, abort := []string{"enable", "acme/route"}, []string{"rollout", "abort", "acme/route"}
	approve := []string{"rollout", "approve", "acme/route", "5"}
	promoted := tried(8, "")
	promoted.Active, promoted.Candidate = promoted.Candidate.Version, nil
	live := &registryv1.ScriptStatus{Release: wire.FromRelease(promoted), Desired: 3, Active: 3, Converged: true}
	for name, tt := range map[string]struct {
		args    []string
		streams [][]*registryv1.ScriptStatus
		code    int
		want    string
	}{
		"enabled":                       {enable, [][]*registryv1.ScriptStatus{{at(0, 0, "agent-3"), at(0, 0, "")}}, 0, "candidate v5 testing, passed on 1/3 agents\n"},
		"enabled before the first step": {enable, [][]*registryv1.ScriptStatus{{inSteps}}, 0, "candidate v5 rolling out, on 0/3 agents\n"},
		"enabled, where tests failed":   {enable, [][]*registryv1.ScriptStatus{{at(1, 1, "", wrong)}}, 0, "passed on 1/3 agents, failed on 1\n"},
		"an agent cannot":               {enable, [][]*registryv1.ScriptStatus{{at(1, 0, "", full)}}, 7, "not every agent could take the change: agent-3: disk full\n"},
		"one waits":                     {enable, [][]*registryv1.ScriptStatus{{at(0, 0, "agent-3")}}, 7, ", waiting for agent-3 after 1m0s\n"},
		"one cannot, and one waits":     {enable, [][]*registryv1.ScriptStatus{{at(1, 0, "agent-2", full)}}, 7, ", waiting for agent-2 after 1m0s\n"},
		"all are unknown":               {enable, [][]*registryv1.ScriptStatus{{gone}}, 7, " after 1m0s\n"},
		"aborted":                       {abort, [][]*registryv1.ScriptStatus{{at(1, 1, "", wrong)}}, 0, "passed on 1/3 agents, failed on 1\n"},
		"aborted by its number":         {append(abort, "v5"), [][]*registryv1.ScriptStatus{{at(0, 0, "")}}, 0, "candidate v5"},
		"another is aborted":            {append(abort, "4"), nil, 4, "not 5 but 4"},
		"an abort that one cannot take": {abort, [][]*registryv1.ScriptStatus{{at(2, 1, "", wrong, full)}}, 7, "could take the change: agent-3: disk full\n"},
		"approved, and in its step":     {approve, [][]*registryv1.ScriptStatus{{at(0, 0, "")}}, 7, "candidate v5 testing, passed on 1/3 agents after 1m0s\n"},
		"approved, and live":            {approve, [][]*registryv1.ScriptStatus{{at(0, 0, ""), live}}, 0, "v5 "},
		"one that is not named cannot":  {abort, [][]*registryv1.ScriptStatus{{at(2, 1, "", wrong)}}, 7, "could take the change: no agent gave a reason\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var buf bytes.Buffer
			code := wait(t, scriptctl.Streams{Out: &buf, Err: &buf}, tt.streams, tt.args...)
			if code != tt.code || !strings.Contains(buf.String(), tt.want) {
				t.Errorf("exit code %d, want %d; got %q, want %q in it", code, tt.code, buf.String(), tt.want)
			}
		})
	}
}

// TestInterruptedWait says how far the change has come, and not that the registry is away.
func TestInterruptedWait(t *testing.T) {
	status := &registryv1.ScriptStatus{Release: wire.FromRelease(released("route")), Desired: 3, Active: 2, SlowestAgent: "agent-3"}
	for name, tt := range map[string]struct {
		streams [][]*registryv1.ScriptStatus
		want    string
	}{
		"at work":       {[][]*registryv1.ScriptStatus{{status}}, "active on 2/3 agents, waiting for agent-3 when the wait was interrupted: the change stays, see scriptctl status acme/route\n"},
		"nothing heard": {nil, "error: acme/route: nothing was heard of revision 7 when the wait was interrupted: the change stays, see scriptctl status acme/route\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var buf bytes.Buffer
			code := waitUntil(t, errors.New("interrupt signal received"), scriptctl.Streams{Out: &buf, Err: &buf}, tt.streams, "pin", "acme/route", "4")
			if code != 7 || !strings.HasSuffix(buf.String(), tt.want) {
				t.Errorf("exit code %d, want 7; got %q, want %q at its end", code, buf.String(), tt.want)
			}
		})
	}
}

// A watch on a narrow terminal shows all columns, in their places, while a
// rollout runs and after it.
func TestWatchKeepsItsColumns(t *testing.T) {
	at := func(active int32, slowest string) *registryv1.ScriptStatus {
		r := released("deployment-route")
		return &registryv1.ScriptStatus{
			Release: wire.FromRelease(r), Desired: 3, Active: active, Converged: active == 3, SlowestAgent: slowest,
			Took: durationpb.New(time.Duration(active/3) * 12300 * time.Microsecond),
		}
	}
	broken := at(2, "agent-3")
	broken.Failed = 1
	broken.Failures = []*registryv1.AgentFailure{{Agent: "agent-3", Error: wire.FromError(script.Errorf(script.Limit, "", "no space is left on the disk"))}}
	r := &rollout{streams: make(chan []*registryv1.ScriptStatus, 1)}
	r.streams <- []*registryv1.ScriptStatus{at(0, "agent-3"), at(2, "agent-3"), at(3, ""), at(0, "agent-2"), broken, at(3, "agent-1")}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &frames{last: "agent-1", done: cancel}
	if code := scriptctl.Run(ctx, scriptctl.Streams{
		In: strings.NewReader(""), Out: out, Err: io.Discard, OutTerminal: true, ErrTerminal: true,
		Size: func() (int, int) { return 90, 24 },
	}, []string{"status", "--watch", "--registry", serveRollout(t, r)}); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	const heading = "SCRIPT                 VERSION    DIGEST           ACTIVE  STATUS       SLOWEST  TOOK"
	want := []string{
		"0/3     [---------]  agent-3  -", "2/3     [######---]  agent-3  -", "3/3     converged    -        12.3 ms",
		"0/3     [---------]  agent-2  -",
		"2/3     1 failed     agent-3  -\nacme/deployment-route: agent-3: no space is left on the disk", "3/3     converged    agent-1  12.3 ms",
	}
	if len(out.all) != len(want) {
		t.Fatalf("got %q, want %d frames", out.all, len(want))
	}
	for i, frame := range out.all {
		if !strings.Contains(frame, heading+"\n") || !strings.Contains(frame, want[i]+"\n") {
			t.Errorf("frame %d:\n%swant %s", i, frame, want[i])
		}
	}
}

// TestAnAgentThatLacksEverything: one that is stuck before it has activated anything is not what
// rolls every script out.
func TestAnAgentThatLacksEverything(t *testing.T) {
	converged := &registryv1.Rollout{Revision: 7, Agents: 2}
	for want, s := range map[string]*registryv1.ScriptStatus{
		"active, 1 starting  ":      {Active: 2, Starting: 1},
		"rolling out  ":             {Active: 1, Starting: 1},
		"rolling out   ":            {Starting: 3},
		"active, 1 behind  ":        {Active: 2, Rollout: converged},
		"active, 1 lagging  ":       {Active: 2, Lagging: 1, Rollout: converged},
		"1 failed: agent-3: full  ": {Active: 2, Failed: 1, Failures: []*registryv1.AgentFailure{{Agent: "agent-3", Error: wire.FromError(script.Errorf(script.Limit, "", "full"))}}},
	} {
		s.Release, s.Desired, s.SlowestAgent = wire.FromRelease(released("route")), 3, "agent-3"
		var out bytes.Buffer
		scriptctl.Run(t.Context(), scriptctl.Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard},
			[]string{"status", "--registry", serveRollout(t, &rollout{status: s})})
		if !strings.Contains(out.String(), strings.TrimRight(want, " ")+"   agent-3") {
			t.Errorf("want %s in\n%s", want, &out)
		}
	}
}

// frames keeps each thing that was drawn, and calls done after the last.
type frames struct {
	all  []string
	last string // what the last holds
	done func()
}

func (f *frames) Write(p []byte) (int, error) {
	f.all = append(f.all, string(p))
	if strings.Contains(string(p), f.last) {
		f.done()
	}
	return len(p), nil
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
