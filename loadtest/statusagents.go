package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
)

// When agents report, as agent/follow does.
const (
	reportEvery   = 5 * time.Second        // without a change
	reportApart   = 100 * time.Millisecond // at least, unless beacons ask for more
	rollJitter    = 200 * time.Millisecond
	activateAfter = 5 * time.Millisecond // from the event until a release is live
	// reportedActivations are in a report, at most.
	reportedActivations = 32
	agentTick           = 2 * time.Millisecond

	simulatedIncarnation = "IHXQ5SLKZ7ZTGCNZ3FD3QP2GYM"
)

// simulatedAgents report as so many agents do, over a few connections.
type simulatedAgents struct {
	line     *natsLine
	subjects wire.Subjects
	keyring  *seal.Keyring
	random   *rand.Rand

	mu     sync.Mutex
	fleet  string
	head   int64 // live on all of them
	coming []activation
	recent []activation // the last that went live
	apart  time.Duration
	agents []simulatedAgent
	sent   int
	err    error
}

// activation is a revision, and when it goes live on all agents.
type activation struct {
	revision int64
	at       time.Time
}

type simulatedAgent struct {
	name     string
	session  seal.Session
	sequence uint64
	labels   map[string]string
	sent     time.Time
	due      time.Time
}

func newSimulatedAgents(ctx context.Context, address, registry string, count int) (*simulatedAgents, error) {
	s := &simulatedAgents{
		subjects: wire.Subjects{Prefix: wire.DefaultPrefix}, keyring: seal.TrustEverything(),
		random: rand.New(rand.NewPCG(1, 1)), apart: reportApart,
	}
	now := time.Now()
	for i := range count {
		s.agents = append(s.agents, simulatedAgent{
			name:   fmt.Sprintf("node-%05d.eu-central-1.compute.internal", i),
			labels: map[string]string{"zone": "eu-central-1" + string("abc"[i%3]), "pool": "edge", "kernel": "6.12.9"},
			due:    now.Add(time.Duration(s.random.Int64N(int64(reportEvery)))),
		})
	}
	if err := s.open(ctx, registry); err != nil {
		return nil, fmt.Errorf("the simulated agents get no sessions: %w", err)
	}
	line, err := dialNATS(ctx, address, s.receive, s.subjects.Feed("all"), s.subjects.RollCall())
	s.line = line
	return s, err
}

// open gets a session for each of them. A registry believes it for ten minutes at least.
func (s *simulatedAgents) open(ctx context.Context, registry string) error {
	conn, err := grpc.NewClient(registry, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nobody asks on it any more
	feed := follow.NewRPC(conn)
	var opening errgroup.Group
	opening.SetLimit(32)
	for i := range s.agents {
		a := &s.agents[i]
		opening.Go(func() error {
			request := &registryv1.PullRequest{WithoutSources: true, Nonce: make([]byte, 16), Agent: a.name, Incarnation: simulatedIncarnation}
			for resp, err := range feed.Pull(ctx, request) {
				if err != nil {
					return err
				}
				var page eventv1.Page
				if _, err := s.keyring.Open(resp.GetPage(), &page); err != nil {
					return err
				}
				a.session = seal.Session{Token: page.GetSession(), Key: page.GetSessionKey()}
				break // the first page has it
			}
			return nil
		})
	}
	return opening.Wait()
}

// receive takes in an event, a beacon or a roll call for all of them.
func (s *simulatedAgents) receive(subject string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case strings.HasSuffix(subject, ".event"):
		var m eventv1.Event
		if _, err := s.keyring.Open(data, &m); err != nil {
			s.err = err
			return
		}
		s.activate(m.GetFleet(), m.GetRevision(), now.Add(activateAfter))
	case strings.HasSuffix(subject, ".beacon"):
		var m eventv1.Beacon
		if _, err := s.keyring.Open(data, &m); err != nil {
			s.err = err
			return
		}
		if m.GetReportInterval() != nil {
			s.apart = max(reportApart, m.GetReportInterval().AsDuration())
		}
		s.activate(m.GetFleet(), m.GetHeadRevision(), now)
	default:
		for i := range s.agents {
			s.want(&s.agents[i], now.Add(time.Duration(s.random.Int64N(int64(rollJitter)))))
		}
	}
}

// activate makes the revision live on all agents then.
func (s *simulatedAgents) activate(fleet string, revision int64, at time.Time) {
	s.fleet = fleet
	if n := len(s.coming); revision <= s.head || n > 0 && revision <= s.coming[n-1].revision {
		return
	}
	s.coming = append(s.coming, activation{revision, at})
	for i := range s.agents {
		s.want(&s.agents[i], at)
	}
}

// want lets the agent report at that time, or as soon after it as it may.
func (s *simulatedAgents) want(a *simulatedAgent, at time.Time) {
	if soonest := a.sent.Add(s.apart); at.Before(soonest) {
		at = soonest
	}
	if at.Before(a.due) {
		a.due = at
	}
}

// run reports until ctx is done or the line breaks.
func (s *simulatedAgents) run(ctx context.Context) error {
	ticker := time.NewTicker(agentTick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			s.line.close()
			return nil
		case now := <-ticker.C:
			if err := s.report(now); err != nil {
				return fmt.Errorf("the simulated agents cannot report: %w", err)
			}
		}
	}
}

// report sends what is due.
func (s *simulatedAgents) report(now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.fleet == "" {
		return s.err
	}
	for len(s.coming) > 0 && !now.Before(s.coming[0].at) {
		s.head = s.coming[0].revision
		s.recent = append(s.recent[max(0, len(s.recent)-reportedActivations+1):], s.coming[0])
		s.coming = s.coming[1:]
	}
	var activations []*eventv1.Activation
	for _, a := range s.recent {
		if ago := now.Sub(a.at); ago < 2*reportEvery {
			activations = append(activations, &eventv1.Activation{Revision: a.revision, Ago: durationpb.New(ago)})
		}
	}
	for i := range s.agents {
		a := &s.agents[i]
		if now.Before(a.due) {
			continue
		}
		a.sequence++
		a.sent, a.due = now, now.Add(reportEvery)
		s.sent++
		data, err := seal.SealStatus(&eventv1.Status{
			Fleet: s.fleet, Agent: a.name, Incarnation: simulatedIncarnation, Sequence: a.sequence, Labels: a.labels,
			Software: "v0.3.0-20260101-0123456789ab", ActivatedRevision: s.head, SentAt: timestamppb.New(now),
			DiskKeys: []string{"0123456789abcdef"}, Activations: activations,
		}, a.session)
		if err == nil {
			err = s.line.publish(s.subjects.Status(a.name), data)
		}
		if err != nil {
			return err
		}
	}
	return s.line.flush()
}

// reports is how many were sent so far.
func (s *simulatedAgents) reports() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}
