package feed_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/embedded/etcdtest"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/etcdstore"
	"github.com/scriptorium-dev/scriptorium/registry/feed"
	"github.com/scriptorium-dev/scriptorium/script"
)

// patience is how long a test waits for what must come.
const patience = 60 * time.Second

// etcd is shared by all tests, each under a prefix of its own.
var etcd *embedded.Etcd

func TestMain(m *testing.M) {
	os.Exit(etcdtest.Run(m, func(e *embedded.Etcd) { etcd = e }))
}

func open(t *testing.T, prefix string) *etcdstore.Store {
	t.Helper()
	s, err := etcdstore.Open(etcdstore.Config{Endpoints: []string{etcd.Endpoint()}, Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	etcdtest.Found(t, s)
	return s
}

// suspended is a store whose watch can be ended, and then is not made again until
// it is resumed.
type suspended struct {
	*etcdstore.Store
	mu   sync.Mutex
	gate chan struct{} // closed while watches are allowed
	cut  chan struct{} // closed when they end
}

func newSuspended(s *etcdstore.Store) *suspended {
	gate := make(chan struct{})
	close(gate)
	return &suspended{Store: s, gate: gate, cut: make(chan struct{})}
}

func (s *suspended) suspend() (resume func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.cut)
	s.cut, s.gate = make(chan struct{}), make(chan struct{})
	gate := s.gate
	return func() { close(gate) }
}

func (s *suspended) Watch(ctx context.Context, after script.Revision) iter.Seq2[registry.Transaction, error] {
	return func(yield func(registry.Transaction, error) bool) {
		s.mu.Lock()
		gate, cut := s.gate, s.cut
		s.mu.Unlock()
		select {
		case <-gate:
		case <-ctx.Done():
			return
		}
		watching, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-cut:
				cancel()
			case <-watching.Done():
			}
		}()
		for t, err := range s.Store.Watch(watching, after) {
			if !yield(t, err) {
				return
			}
		}
	}
}

// scribble makes random changes of some tenants' scripts, values and settings, several
// at a time.
func scribble(t *testing.T, store registry.Store, seed uint64, changes int) {
	t.Helper()
	var writing sync.WaitGroup
	for w := range 3 {
		writing.Go(func() {
			random := mathrand.New(mathrand.NewPCG(seed, uint64(w)))
			to := newWriter(t, store)
			for i := range changes / 3 {
				tenant, name := []string{"acme", "shop-a", "shop-b", "zoo"}[random.IntN(4)], fmt.Sprint("script-", w)
				var err error
				switch random.IntN(8) {
				case 0:
					_, err = to.registry.Delete(t.Context(), registry.DeleteRequest{Write: writeOf(tenant, name)})
				case 1, 2:
					content := fmt.Sprint(seed, w, i, strings.Repeat("x", random.IntN(2)*registry.InlineSourceBytes))
					err = to.putValue(tenant, name, content)
				case 3:
					err = to.removeValue(tenant, name)
				case 4:
					err = to.setTenant(tenant, random.IntN(3))
				default:
					to.publish(tenant, name, fmt.Sprint(seed, w, i))
				}
				if err != nil && script.KindOf(err) != script.NotFound {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
}

// reached waits until the replica has it all.
func (r *replica) reached(t *testing.T, head script.Revision) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.mirror.Reached(ctx, head); err != nil {
		t.Fatalf("revision %d was not reached: %v", head, err)
	}
	r.Stats() // it waits for what is being published
}

// TestReplicasAgree: three replicas publish the same bytes, group by group, from
// where each begins: one from the start, one that starts late, and one that loses
// its watch while etcd forgets what it missed.
func TestReplicasAgree(t *testing.T) {
	seed := mathrand.Uint64()
	t.Log("seed", seed)
	prefix := rand.Text()
	store := open(t, prefix)
	groups := []script.Selector{selector(t, "shop-*"), selector(t, "acme", "zoo"), selector(t, "nobody")}
	losing := newSuspended(open(t, prefix))

	first, second := newReplica(t, store, groups...), newReplica(t, losing, groups...)
	first.Lead(1)
	second.Lead(1)
	scribble(t, store, seed, 90)
	late := newReplica(t, open(t, prefix), groups...)
	late.Lead(1)
	scribble(t, store, seed+1, 30)
	head, err := store.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second.reached(t, head)
	resume := losing.suspend()
	scribble(t, store, seed+2, 60)
	if head, err = store.Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.reached(t, head) // what they have not seen yet would be forgotten for them too
	late.reached(t, head)
	compact(t)
	resume()
	second.reached(t, head)
	scribble(t, store, seed+3, 60)
	if head, err = store.Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*replica{first, second, late} {
		r.reached(t, head)
	}
	for _, group := range append(groups, script.Selector{}) {
		want := first.wire(group.Group())
		for name, r := range map[string]*replica{"late": late, "lost its watch": second} {
			gaps := differ(t, name+" "+group.String(), r.wire(group.Group()), want)
			if wantGaps := 1; name != "late" && len(want) > 0 && gaps != wantGaps || name == "late" && gaps != 0 {
				t.Errorf("%s, %v: %d gaps", name, group, gaps)
			}
			if got := r.mirror.Group(group); got != first.mirror.Group(group) {
				t.Errorf("%s, %v: at %+v, want %+v", name, group, got, first.mirror.Group(group))
			}
		}
	}
}

// compact makes etcd forget its past.
func compact(t *testing.T) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	now, err := client.Get(t.Context(), "anything")
	if err == nil {
		_, err = client.Compact(t.Context(), now.Header.Revision)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// differ checks that got is the end of want, byte for byte, but for gaps, which it
// counts.
func differ(t *testing.T, who string, got, want [][]byte) (gaps int) {
	t.Helper()
	at := len(want)
	for _, data := range slices.Backward(got) {
		i := slices.IndexFunc(want, func(w []byte) bool { return bytes.Equal(w, data) })
		if i < 0 || i >= at {
			t.Errorf("%s: published what the first replica has not, or in another order", who)
			return gaps
		}
		if i < at-1 {
			gaps++
		}
		at = i
	}
	return gaps
}

// broker is what the fleet hears of all replicas, in one order.
type broker struct {
	recorder
}

// line is a replica's connection to the broker, until it dies.
type line struct {
	*broker
	mu   sync.Mutex
	dead bool
}

func (l *line) PublishEvent(ctx context.Context, e feed.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return errDown
	}
	return l.broker.PublishEvent(ctx, e)
}

func (l *line) PublishBeacon(ctx context.Context, b feed.Beacon) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return errDown
	}
	return l.broker.PublishBeacon(ctx, b)
}

func (l *line) die() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
}
