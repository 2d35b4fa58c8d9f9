package sim

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fanout"
	"github.com/scriptorium-dev/scriptorium/registry/session"
	"github.com/scriptorium-dev/scriptorium/script"
)

// mutants are bugs as somebody could make them, put in from the outside. A simulation
// that does not find them finds nothing.
var mutants = []struct {
	name string
	bugs bugs
	want string // in what is found
	// steps that it takes.
	steps []kind
}{
	{"an agent that does not look for gaps", bugs{bus: withoutGaps}, "reports", []kind{stepBus}},
	{"a feed that drops an event and does not know", bugs{store: forgetful}, "", nil},
	{"a cursor that moves on an error", bugs{state: careless}, "reports", []kind{stepDisk}},
	{"an agent that reports what it has only heard of", bugs{reporter: boastful}, "reports", nil},
	{"an agent that believes an answer of the past", bugs{pages: renewed}, "", []kind{stepCrashAgent, stepStartAgent}},
	{"a registry that forgets request ids", bugs{store: amnesic}, "happened", []kind{stepStoreLink}},
	{"tombstones that are gone without a floor", bugs{store: floorless}, "deleted", []kind{stepCrashAgent, stepStartAgent, stepKillReplica, stepStartReplica}},
	{"a feed and answers without checksums", bugs{bus: withoutSums, pages: pagesWithoutSums}, "drift", []kind{stepDrift}},
	{"a disk that forgets what it has confirmed", bugs{state: volatile}, "", []kind{stepCrashAgent, stepStartAgent}},
	{"an agent that makes live before it is on disk", bugs{state: hasty}, "was live", []kind{stepDisk, stepCrashAgent, stepStartAgent}},
	{"a feed whose beacons stand still", bugs{bus: standstill}, "", []kind{stepBus}},
	{"an agent that keeps values that were deleted", bugs{state: hoarding}, "still has", []kind{stepObject}},
	{"an agent that runs no candidates", bugs{state: timid}, "is to run", []kind{stepCandidate}},
	{"a feed that drops values and does not know", bugs{store: valueless}, "", []kind{stepObject}},
	{"an agent that makes parts of a transaction live", bugs{state: piecemeal}, "goes live with it", []kind{stepSet}},
	{"a registry that believes any session", bugs{sessions: gullible}, "converged", []kind{stepForge}},
}

// mutantSchedules are many times those that it takes to find each of them.
const mutantSchedules = 1000

func TestFindsBugs(t *testing.T) {
	needs.Time(t, "needs a minute of processor time")
	needs.NoRace(t)
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			r := explore(t, search{seed: 1, count: mutantSchedules, favourites: m.steps, bugs: m.bugs})
			if r.failed == nil {
				t.Fatalf("not found in %d schedules", r.runs)
			}
			found := strings.Join(r.outcome.violations, "; ")
			t.Logf("found by seed %d, after %d schedules: %.300s", r.failed.seed, r.runs, found)
			if !strings.Contains(found, m.want) {
				t.Errorf("the violation does not have %q in it", m.want)
			}
		})
	}
}

// TestShowsBugsAsShortHistories: what is found can be read.
func TestShowsBugsAsShortHistories(t *testing.T) {
	needs.Time(t, "needs many schedules")
	needs.NoRace(t)
	b := bugs{state: careless}
	r := explore(t, search{seed: 1, count: mutantSchedules, bugs: b})
	if r.failed == nil {
		t.Fatal("not found")
	}
	least, outcome := reduce(t, *r.failed, r.outcome, b, 5*time.Minute) // it is to get to the end
	if len(least.steps) > 6 || len(outcome.violations) == 0 {
		t.Errorf("%d of %d steps are left, with %v", len(least.steps), len(r.failed.steps), outcome.violations)
	}
	story := least.story(outcome)
	for _, want := range []string{"writer: ", "violations:", "-sim.seed", "-sim.steps"} {
		if !strings.Contains(story, want) {
			t.Errorf("the story does not have %q in it:\n%s", want, story)
		}
	}
}

// rewrite changes a message of type M within its envelope, and seals it again.
func rewrite[M any, P interface {
	*M
	proto.Message
}](w *world, sealed []byte, change func(P),
) []byte {
	var env eventv1.Envelope
	m := P(new(M))
	if proto.Unmarshal(sealed, &env) != nil || env.GetPayloadType() != string(m.ProtoReflect().Descriptor().FullName()) ||
		proto.Unmarshal(env.GetPayload(), m) != nil {
		return sealed
	}
	change(m)
	again, err := w.sealer().Seal(m)
	if err != nil {
		return sealed
	}
	return again
}

// gullible believes sessions that strangers made.
func gullible(real *session.Sessions) fanout.Sessions { return believer{real} }

type believer struct{ real *session.Sessions }

func (b believer) KeyIDs() []string { return b.real.KeyIDs() }

func (b believer) Key(token []byte) ([]byte, error) {
	if key, err := b.real.Key(token); err == nil {
		return key, nil
	}
	return seal.SessionKey(strangersSecret, token), nil
}

// withoutGaps has every event follow whatever was before.
func withoutGaps(w *world, m message) []message {
	m.data = rewrite(w, m.data, func(e *eventv1.Event) { e.PreviousRevision = 0 })
	return []message{m}
}

// withoutSums takes the checksums out of beacons.
func withoutSums(w *world, m message) []message {
	m.data = rewrite(w, m.data, func(b *eventv1.Beacon) { b.Checksums = nil })
	return []message{m}
}

// standstill has every beacon say that there is nothing new.
func standstill(w *world, m message) []message {
	m.data = rewrite(w, m.data, func(b *eventv1.Beacon) { b.HeadRevision, b.GroupRevision = 1, 1 })
	return []message{m}
}

// pagesWithoutSums takes them out of pages.
func pagesWithoutSums(w *world, _ *channel, _ []byte, data []byte) []byte {
	return repaged(w, data, func(p *eventv1.Page) { p.Checksums = nil })
}

func repaged(w *world, data []byte, change func(*eventv1.Page)) []byte {
	var m registryv1.PullResponse
	if proto.Unmarshal(data, &m) != nil || m.GetPage() == nil {
		return data
	}
	m.Page = rewrite(w, m.GetPage(), change)
	changed, err := proto.Marshal(&m)
	if err != nil {
		return data
	}
	return changed
}

// renewed answers now and then with what was answered before, under the new request's
// nonce: an agent that does not look at nonces would not know.
func renewed(w *world, c *channel, nonce, data []byte) []byte {
	r, _ := c.chance()
	old := c.overheard(r)
	if old == nil || r.IntN(3) > 0 {
		return data
	}
	return repaged(w, old, func(p *eventv1.Page) { p.Nonce = nonce })
}

// wrapped is the store of a replica with some of it changed.
type wrapped struct {
	registry.Store
	watch    func(context.Context, script.Revision) iter.Seq2[registry.Transaction, error]
	request  func(context.Context, script.Name, string) (registry.Done, bool, error)
	snapshot func(context.Context) (registry.Snapshot, error)
	commit   func(context.Context, registry.Commit) (script.Revision, error)
}

func (s *wrapped) Watch(ctx context.Context, after script.Revision) iter.Seq2[registry.Transaction, error] {
	if s.watch != nil {
		return s.watch(ctx, after)
	}
	return s.Store.Watch(ctx, after)
}

func (s *wrapped) Request(ctx context.Context, name script.Name, id string) (registry.Done, bool, error) {
	if s.request != nil {
		return s.request(ctx, name, id)
	}
	return s.Store.Request(ctx, name, id)
}

func (s *wrapped) Snapshot(ctx context.Context) (registry.Snapshot, error) {
	if s.snapshot != nil {
		return s.snapshot(ctx)
	}
	return s.Store.Snapshot(ctx)
}

func (s *wrapped) Commit(ctx context.Context, c registry.Commit) (script.Revision, error) {
	if s.commit != nil {
		return s.commit(ctx, c)
	}
	return s.Store.Commit(ctx, c)
}

// forgetful leaves every fifth transaction out of what is watched.
func forgetful(s *storeLink) registryStore {
	return &wrapped{Store: s, watch: func(ctx context.Context, after script.Revision) iter.Seq2[registry.Transaction, error] {
		return func(yield func(registry.Transaction, error) bool) {
			for t, err := range s.Watch(ctx, after) {
				if err == nil && t.Revision%5 == 0 {
					t.Releases = nil
				}
				if !yield(t, err) {
					return
				}
			}
		}
	}}
}

// valueless leaves values out of every fifth transaction that is watched.
func valueless(s *storeLink) registryStore {
	return &wrapped{Store: s, watch: func(ctx context.Context, after script.Revision) iter.Seq2[registry.Transaction, error] {
		return func(yield func(registry.Transaction, error) bool) {
			for t, err := range s.Watch(ctx, after) {
				if err == nil && t.Revision%5 == 0 {
					t.Values, t.Tenants = nil, nil
				}
				if !yield(t, err) {
					return
				}
			}
		}
	}}
}

// amnesic remembers no request.
func amnesic(s *storeLink) registryStore {
	return &wrapped{
		Store: s,
		request: func(context.Context, script.Name, string) (registry.Done, bool, error) {
			return registry.Done{}, false, nil
		},
		commit: func(ctx context.Context, c registry.Commit) (script.Revision, error) {
			c.RequestID = ""
			return s.Commit(ctx, c)
		},
	}
}

// floorless has a replica that starts find no tombstones, and not that there were any.
func floorless(s *storeLink) registryStore {
	return &wrapped{Store: s, snapshot: func(ctx context.Context) (registry.Snapshot, error) {
		snapshot, err := s.Snapshot(ctx)
		all := snapshot.Releases
		snapshot.Floor = 0
		snapshot.Releases = func(yield func(script.Release, error) bool) {
			for r, err := range all {
				if !r.Deleted && !yield(r, err) {
					return
				}
			}
		}
		return snapshot, err
	}}
}

// altered is the state of an agent with some of it changed.
type altered struct {
	*process
	commit func(put []follow.Item, removed []string) error
}

func (s *altered) Commit(put []follow.Item, removed []string) error {
	return s.commit(put, removed)
}

// careless does not mind when the disk is full.
func careless(p *process) followState {
	return &altered{process: p, commit: func(put []follow.Item, removed []string) error {
		_ = p.Commit(put, removed) // the bug
		return nil
	}}
}

// volatile confirms, and then loses what it has confirmed when the process dies.
func volatile(p *process) followState {
	return &altered{process: p, commit: func(put []follow.Item, removed []string) error {
		d := p.agent.disk
		d.mu.Lock()
		before := map[string]follow.Item{}
		for name, item := range d.entries {
			before[name] = item
		}
		d.mu.Unlock()
		err := p.Commit(put, removed)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.entries = before
		return err
	}}
}

// hasty makes live what then cannot be stored.
func hasty(p *process) followState {
	return &altered{process: p, commit: func(put []follow.Item, removed []string) error {
		err := p.Commit(put, removed)
		if err != nil && !p.dead.Load() {
			p.makeLive(put, removed)
		}
		return err
	}}
}

// hoarding does not remove values.
func hoarding(p *process) followState {
	return &altered{process: p, commit: func(put []follow.Item, removed []string) error {
		return p.Commit(put, slices.DeleteFunc(slices.Clone(removed), func(key string) bool { return strings.HasPrefix(key, "values/") }))
	}}
}

// piecemeal makes the first object of a change live, and the rest when it is tried again.
func piecemeal(p *process) followState {
	return &altered{process: p, commit: func(put []follow.Item, removed []string) error {
		if len(put) < 2 {
			return p.Commit(put, removed)
		}
		return errors.Join(p.Commit(put[:1], removed), errNoSpace)
	}}
}

// boasts reports more than there is.
type boasts struct {
	*process
}

func boastful(p *process) followReporter { return &boasts{p} }

func (b *boasts) Report(ctx context.Context, s *eventv1.Status, in seal.Session) error {
	if s.GetActivatedRevision() > 0 {
		s.ActivatedRevision = max(s.GetActivatedRevision(), int64(b.agent.w.truth.head(b.agent.tenants)))
	}
	return b.process.Report(ctx, s, in)
}
