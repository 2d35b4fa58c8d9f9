package forge

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
)

// overhear remembers a status of an agent, unless the stranger has made it.
func (s *Stranger) overhear(m message) {
	var env eventv1.Envelope
	if proto.Unmarshal(m.payload, &env) != nil || len(env.GetSession()) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told = append(s.told, m); len(s.told) > maxHeard {
		s.told = s.told[len(s.told)-maxHeard:]
	}
}

// RunStatuses publishes statuses that registries should not believe until ctx is done.
func (s *Stranger) RunStatuses(ctx context.Context, random *rand.Rand) {
	s.run(ctx, random, s.forgeStatus)
}

// forgeStatus makes a false status; ok is false if there is nothing to make it of yet.
func (s *Stranger) forgeStatus(random *rand.Rand) (kind string, m message, ok bool) {
	s.mu.Lock()
	told := s.told
	s.mu.Unlock()
	if len(told) == 0 {
		return "", m, false
	}
	genuine := told[random.IntN(len(told))]
	var env eventv1.Envelope
	lie := &eventv1.Status{}
	if proto.Unmarshal(genuine.payload, &env) != nil || proto.Unmarshal(env.GetPayload(), lie) != nil {
		return "", m, false
	}
	if random.IntN(4) == 0 {
		return "status: replayed", genuine, true
	}
	aggravate(lie, random)
	kind, in := "status: without a session", seal.Session{}
	switch random.IntN(4) {
	case 0:
		kind, lie.Agent, lie.Incarnation = "status: of nobody", fmt.Sprint("nobody-", random.IntN(1000)), "1"
	case 1:
		kind, in = "status: with another key", seal.Session{Token: env.GetSession(), Key: make([]byte, 32)}
	case 2: // the signature of another status
		payload, err := proto.Marshal(lie)
		env.Payload = payload
		data, errEnvelope := proto.Marshal(&env)
		return "status: altered", message{genuine.subject, data}, err == nil && errEnvelope == nil
	}
	data, err := seal.SealStatus(lie, in)
	return kind, message{s.subjects.Status(lie.GetAgent()), data}, err == nil
}

// aggravate makes the status say what would do most harm.
func aggravate(lie *eventv1.Status, random *rand.Rand) {
	lie.Sequence += 1 << 40
	switch random.IntN(4) {
	case 0:
		lie.ActivatedRevision += 1 << 20
	case 1:
		lie.Leaving = true
	case 2:
		lie.Incarnation = "forged"
	default:
		lie.Failures = append(lie.GetFailures(), &eventv1.Failure{
			Key: "releases/acme/route", Revision: 1 << 40, Error: &scriptv1.Error{Kind: "SCRIPT", Message: "forged"},
		})
	}
}

// floodLabels are sixteen times as large as a registry takes them.
var floodLabels = func() map[string]string {
	labels := map[string]string{}
	for i := range 64 {
		labels[fmt.Sprintf("label-%02d", i)] = strings.Repeat("x", 1000)
	}
	return labels
}()

// Flood publishes large statuses until ctx is done: of agents that have no session, and, if a
// registry gives them one, of agents that have.
func (s *Stranger) Flood(ctx context.Context, random *rand.Rand, registries []string) {
	in, fleet, err := openSession(ctx, registries[random.IntN(len(registries))])
	many := func(random *rand.Rand) (string, message, bool) {
		lie := &eventv1.Status{
			Fleet: fleet, Agent: fmt.Sprint("flood-", random.IntN(1000)), Incarnation: "1", Sequence: random.Uint64(), Labels: floodLabels,
		}
		kind, session := "status: large, without a session", seal.Session{}
		if err == nil && random.IntN(2) == 0 {
			kind, session, lie.Agent = "status: large", in, floodAgent
		}
		data, err := seal.SealStatus(lie, session)
		return kind, message{s.subjects.Status(lie.GetAgent()), data}, err == nil
	}
	s.run(ctx, random, many)
}

// floodAgent is an agent that has a session, and of which no status is ever taken in.
const floodAgent = "flood"

func openSession(ctx context.Context, registry string) (in seal.Session, fleet string, err error) {
	conn, err := grpc.NewClient(registry, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return in, "", err
	}
	defer func() { _ = conn.Close() }() // nobody asks on it any more
	stream, err := registryv1.NewFeedClient(conn).Pull(ctx, &registryv1.PullRequest{
		WithoutSources: true, Nonce: make([]byte, 16), Agent: floodAgent, Incarnation: "1",
	})
	if err != nil {
		return in, "", err
	}
	resp, err := stream.Recv()
	if err != nil {
		return in, "", err
	}
	var page eventv1.Page
	_, err = seal.TrustEverything().Open(resp.GetPage(), &page)
	return seal.Session{Token: page.GetSession(), Key: page.GetSessionKey()}, page.GetFleet(), err
}
