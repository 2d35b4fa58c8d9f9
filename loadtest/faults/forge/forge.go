// Package forge is a stranger who has the credentials of NATS: it listens to what
// registries tell agents, and publishes what they should not believe.
package forge

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/loadtest/faults/natswire"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Stranger forges messages. It is safe for concurrent use.
type Stranger struct {
	servers  []string
	subjects wire.Subjects
	own      *seal.Sealer // with a key that nobody trusts
	fleet    *seal.Sealer // with the registries' key, for messages of another fleet alone
	genuine  *seal.Keyring

	mu     sync.Mutex
	heard  []message // the first and the latest of them
	told   []message // the latest statuses of agents
	forged map[string]int
}

type message struct {
	subject string
	payload []byte
}

// maxHeard messages are remembered: half of them for good, the others by turns.
const maxHeard = 400

// New returns a stranger to the fleet whose registries sign with the key.
func New(servers []string, key ed25519.PrivateKey) (*Stranger, error) {
	own, err := seal.GenerateKey()
	if err != nil {
		return nil, err
	}
	return &Stranger{
		servers: servers, subjects: wire.Subjects{Prefix: wire.DefaultPrefix},
		own: seal.NewSealer(own), fleet: seal.NewSealer(key),
		genuine: seal.NewKeyring(key.Public().(ed25519.PublicKey)), forged: map[string]int{},
	}, nil
}

// Forged returns how many messages were published, by kind.
func (s *Stranger) Forged() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[string]int{}
	for kind, n := range s.forged {
		counts[kind] = n
	}
	return counts
}

// Listen remembers what is said on the feed until ctx is done. It comes back when a
// server goes away.
func (s *Stranger) Listen(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		client, err := natswire.Dial(ctx, s.servers[i%len(s.servers)], []string{s.subjects.Feed(script.GroupAll), s.subjects.AllStatus()}, s.hear)
		if err == nil {
			select {
			case <-ctx.Done():
			case <-client.Done():
			}
			client.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// hear remembers a message, unless it is one of the stranger's own.
func (s *Stranger) hear(subject string, payload []byte) {
	if strings.HasPrefix(subject, s.subjects.Status("")) {
		s.overhear(message{subject: subject, payload: payload})
		return
	}
	_, errBeacon := s.genuine.Open(payload, &eventv1.Beacon{})
	_, errEvent := s.genuine.Open(payload, &eventv1.Event{})
	if errBeacon != nil && errEvent != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := message{subject: subject, payload: payload}
	if len(s.heard) < maxHeard {
		s.heard = append(s.heard, m)
		return
	}
	s.heard[maxHeard/2+rand.IntN(maxHeard/2)] = m
}

// Run publishes forged messages until ctx is done.
func (s *Stranger) Run(ctx context.Context, random *rand.Rand) { s.run(ctx, random, s.forge) }

// run publishes what make returns until ctx is done.
func (s *Stranger) run(ctx context.Context, random *rand.Rand, forge func(*rand.Rand) (kind string, m message, ok bool)) {
	var client *natswire.Client
	defer func() {
		if client != nil {
			client.Close()
		}
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if client == nil {
			var err error
			if client, err = natswire.Dial(ctx, s.servers[random.IntN(len(s.servers))], nil, nil); err != nil {
				client = nil
				continue
			}
		}
		kind, m, ok := forge(random)
		if !ok {
			continue
		}
		if err := client.Publish(m.subject, m.payload); err != nil {
			client.Close()
			client = nil
			continue
		}
		s.mu.Lock()
		s.forged[kind]++
		s.mu.Unlock()
	}
}

// forge makes one message; ok is false if there is nothing to make it of yet.
func (s *Stranger) forge(random *rand.Rand) (kind string, m message, ok bool) {
	genuine, ok := s.recall(random)
	if !ok {
		return "", m, false
	}
	switch n := random.IntN(6); n {
	case 0:
		return "noise", message{genuine.subject, noise(random)}, true
	case 1:
		return "replayed", genuine, true
	case 2:
		return "altered", message{genuine.subject, flip(genuine.payload, random)}, true
	default:
		payload, err := s.lie(genuine, n, random)
		kind = map[int]string{3: "by a stranger", 4: "unsigned", 5: "of another fleet"}[n]
		return kind, message{genuine.subject, payload}, err == nil
	}
}

func (s *Stranger) recall(random *rand.Rand) (message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.heard) == 0 {
		return message{}, false
	}
	return s.heard[random.IntN(len(s.heard))], true
}

func noise(random *rand.Rand) []byte {
	b := make([]byte, random.IntN(2000))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

func flip(payload []byte, random *rand.Rand) []byte {
	b := append([]byte(nil), payload...)
	for range 1 + random.IntN(4) {
		if len(b) > 0 {
			b[random.IntN(len(b))] ^= 1 << random.IntN(8)
		}
	}
	return b
}

// lie takes a genuine message, makes it say what would do harm, and seals it anew:
// by a stranger's key, at times under the true key's name; by none; or, as what it is not, a
// message of another fleet, by the true key.
func (s *Stranger) lie(genuine message, how int, random *rand.Rand) ([]byte, error) {
	var env eventv1.Envelope
	if err := proto.Unmarshal(genuine.payload, &env); err != nil {
		return nil, err
	}
	sealer := map[int]*seal.Sealer{3: s.own, 4: seal.Unsigned(), 5: s.fleet}[how]
	fleet := func(own string) string {
		if how == 5 {
			return "another"
		}
		return own
	}
	var lie proto.Message
	switch env.GetPayloadType() {
	case "scriptorium.event.v1.Event":
		event := &eventv1.Event{}
		if err := proto.Unmarshal(env.GetPayload(), event); err != nil {
			return nil, err
		}
		event.Fleet = fleet(event.GetFleet())
		if err := evil(event, sealer, random); err != nil {
			return nil, err
		}
		lie = event
	case "scriptorium.event.v1.Beacon":
		beacon := &eventv1.Beacon{}
		if err := proto.Unmarshal(env.GetPayload(), beacon); err != nil {
			return nil, err
		}
		beacon.Fleet = fleet(beacon.GetFleet())
		ahead := random.Int64N(1000)
		beacon.HeadRevision += ahead
		beacon.GroupRevision += ahead
		beacon.Term += 1 + random.Int64N(1000)
		beacon.Sequence += uint64(ahead)
		for _, c := range beacon.GetChecksums() {
			c.Sum = flip(c.GetSum(), random)
		}
		lie = beacon
	default:
		return nil, fmt.Errorf("no lie to tell about a %s", env.GetPayloadType())
	}
	data, err := sealer.Seal(lie)
	if err != nil || how != 3 || random.IntN(2) == 0 {
		return data, err
	}
	return s.underTheTrueName(data)
}

// underTheTrueName makes the envelope say that the registries' key has signed it.
func (s *Stranger) underTheTrueName(data []byte) ([]byte, error) {
	var env eventv1.Envelope
	if err := proto.Unmarshal(data, &env); err != nil {
		return nil, err
	}
	for _, signature := range env.GetSignatures() {
		signature.KeyId = s.fleet.KeyID()
	}
	return proto.Marshal(&env)
}

// evil makes an event publish a source of the stranger's, as the newest of all.
func evil(event *eventv1.Event, sealer *seal.Sealer, random *rand.Rand) error {
	source := fmt.Appendf(nil, "function handle() return %q end", "evil")
	digest := script.DigestOf(source)
	event.Revision += 1 + random.Int64N(3)
	event.PreviousRevision -= random.Int64N(3)
	for i, sealed := range event.GetEntries() {
		var env eventv1.Envelope
		entry := &eventv1.Entry{}
		if err := proto.Unmarshal(sealed, &env); err != nil {
			return err
		}
		if err := proto.Unmarshal(env.GetPayload(), entry); err != nil {
			return err
		}
		if entry.GetObject() == nil {
			return errors.New("an entry of nothing")
		}
		entry.Fleet = event.GetFleet()
		entry.Object.Revision = event.GetRevision()
		if active := entry.GetObject().GetRelease().GetActive(); active != nil {
			active.Number++
			active.Digest, active.Size = digest[:], int64(len(source))
		}
		resealed, err := sealer.Seal(entry)
		if err != nil {
			return err
		}
		event.Entries[i] = resealed
	}
	for _, s := range event.GetSources() {
		s.Digest, s.Content = digest[:], source
	}
	return nil
}
