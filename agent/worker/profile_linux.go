package worker

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/scriptorium-dev/scriptorium/agent/profile"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// profilePatience is how long a process may take to hand over a profile that has ended.
	profilePatience = 5 * time.Second
	// endEvery is the interval at which the agent asks a process to end a profile that it may not have begun yet.
	endEvery = 50 * time.Millisecond
	// maxProfileBytes is what registries take of an agent.
	maxProfileBytes = 1 << 20
)

// profile has the tenant's process profile a script.
func (t *tenant) profile(ctx context.Context, spec profile.Spec, stop <-chan struct{}) (*Profile, error) {
	p := t.state.Load().process
	if p == nil {
		return nil, script.Errorf(script.Unavailable, "", "tenant %s has no process just now: try again", t.name)
	}
	ctx, cancel := context.WithTimeout(ctx, spec.Duration+profilePatience)
	defer cancel()
	type answer struct {
		resp *workerv1.ProfileResponse
		err  error
	}
	answers := make(chan answer, 1)
	var again <-chan time.Time
	go func() {
		resp, err := p.client.Profile(ctx, &workerv1.ProfileRequest{
			Script: spec.Script.Script, Version: spec.Version, Duration: durationpb.New(spec.Duration), Id: spec.ID,
		}, grpc.MaxCallRecvMsgSize(maxProfileBytes))
		answers <- answer{resp, err}
	}()
	for {
		select {
		case a := <-answers:
			if a.err != nil {
				return nil, wire.FromStatus(a.err)
			}
			return &Profile{Parts: a.resp.GetParts(), OtherCalls: a.resp.GetOtherCalls()}, nil
		case <-stop:
			stop, again = nil, time.After(0)
		case <-again:
			again = nil
			ended, err := p.client.EndProfile(ctx, &workerv1.EndProfileRequest{Script: spec.Script.Script, Id: spec.ID})
			if err == nil && !ended.GetEnded() {
				again = time.After(endEvery)
			}
		}
	}
}
