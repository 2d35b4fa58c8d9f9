package worker

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/profile"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/grpcguard"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// liar is a process whose profiles have many frames, each of two bytes.
type liar struct {
	workerv1.UnimplementedWorkerServer

	frames int
}

func (l liar) Profile(context.Context, *workerv1.ProfileRequest) (*workerv1.ProfileResponse, error) {
	part := &eventv1.ScriptProfile{Frames: make([]*eventv1.ProfileFrame, l.frames)}
	for i := range part.Frames {
		part.Frames[i] = &eventv1.ProfileFrame{}
	}
	return &workerv1.ProfileResponse{Parts: []*eventv1.ScriptProfile{part}}, nil
}

// TestAHugeProfile: an agent takes no more from a process than it could hand on.
func TestAHugeProfile(t *testing.T) {
	for frames, want := range map[int]bool{1000: true, 1 << 20: false} {
		conn, _ := connected(t, func(s *grpcguard.Server) { workerv1.RegisterWorkerServer(s, liar{frames: frames}) })
		acme := newIdle(t, &bytes.Buffer{})
		acme.state.Store(&state{process: &process{client: workerv1.NewWorkerClient(conn)}})
		got, err := acme.profile(t.Context(), profile.Spec{Script: script.Name{Tenant: "acme", Script: "route"}, Duration: time.Minute}, nil)
		if (err == nil) != want {
			t.Errorf("%d frames: %v, %v", frames, got != nil, err)
		}
	}
}
