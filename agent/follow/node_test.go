package follow_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// node is an agent's state in memory. What is in it survives the follower, as a
// disk does. It checks the promises at each change and each report.
type node struct {
	compiling chan struct{} // if not nil, sources are not stored before it is closed: once something compiles
	w         *world
	name      string
	trusted   *seal.Keyring
	tenants   script.Selector
	metrics   *prometheus.Registry // of the last run
	tracer    trace.Tracer
	traced    func(script.Object, trace.SpanContext)
	told      []string // keys of what went live in a span

	mu         sync.Mutex
	live       map[string]script.Object
	committed  map[string]wire.Sum    // fingerprints
	kept       map[string]follow.Item // on disk
	sources    map[script.Digest][]byte
	cursor     follow.Cursor
	fleet      string       // of the last commit
	session    seal.Session // of the last status
	status     *eventv1.Status
	reports    []time.Time
	prepared   int
	leaving    int
	held       int    // bytes of sources at once, at most
	lost       bool   // sources of what is live were lost: the cursor goes back before it
	committing func() // called before each commit; may be nil
	damaged    bool   // by the test: what it holds need not be right until it is healed
}

func newNode(w *world, name string) *node {
	return &node{
		w: w, name: name, trusted: w.trusted,
		live: map[string]script.Object{}, committed: map[string]wire.Sum{}, kept: map[string]follow.Item{},
		sources: map[script.Digest][]byte{},
	}
}

// config of a follower of the node.
func (n *node) config(seed uint64) follow.Config {
	n.metrics = prometheus.NewRegistry()
	return follow.Config{
		Agent: n.name, Trusted: n.trusted, Tenants: n.tenants, AdoptFleet: n.w.adopt,
		State: n, Registry: n.w, Feed: line{w: n.w, tenants: n.tenants}, Reporter: n,
		Log: quiet, Metrics: n.metrics, Seed: seed, Tracer: n.tracer, Traced: n.traced,
	}
}

// run follows until the returned function is called.
func (n *node) run(ctx context.Context, seed uint64) (*follow.Follower, func()) {
	ctx, cancel := context.WithCancel(ctx)
	f, err := follow.New(n.config(seed))
	if err != nil {
		n.w.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f.Run(ctx); err != nil {
			n.w.t.Error(err)
		}
	}()
	return f, func() {
		cancel()
		<-done
	}
}

// metric returns the value of a counter or a gauge of the last run, by its label if it has one.
func (n *node) metric(name, label string) int {
	n.w.t.Helper()
	families, err := n.metrics.Gather()
	if err != nil {
		n.w.t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return int(m.GetCounter().GetValue() + m.GetGauge().GetValue()) // it is one of both
			}
		}
	}
	return 0
}

func (n *node) refused(reason string) int {
	return n.metric("scriptorium_agent_messages_refused_total", reason)
}

func (n *node) Cursor() follow.Cursor {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cursor
}

func (n *node) Revision(key string) script.Revision {
	n.mu.Lock()
	defer n.mu.Unlock()
	return revisionOf(n.live[key])
}

// revisionOf returns the object's; 0 if there is none.
func revisionOf(o script.Object) script.Revision {
	if o == (script.Object{}) {
		return 0
	}
	return o.Revision()
}

func (n *node) Live() iter.Seq[string] {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Values(slices.Collect(maps.Keys(n.live)))
}

func (n *node) Incomplete() []script.Object {
	var incomplete []script.Object
	for _, o := range n.live {
		if n.lacks(o) {
			incomplete = append(incomplete, o)
		}
	}
	n.lost = len(incomplete) > 0
	return incomplete
}

// lacks reports whether something that the object needs is not here.
func (n *node) lacks(o script.Object) bool {
	for c := range o.Contents {
		if n.sources[c.Digest] == nil {
			return true
		}
	}
	return false
}

func (n *node) HasSource(d script.Digest) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sources[d] != nil
}

func (n *node) fault(cursor bool) error {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if cursor && n.w.faults.cursors || !n.w.chance(n.w.faults.disk) {
		return nil
	}
	return errors.New("no space left on device")
}

func (n *node) PutSources(sources map[script.Digest][]byte) error {
	if n.compiling != nil {
		<-n.compiling
	}
	if err := n.fault(false); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held = max(n.held, bytesOf(sources))
	for d, content := range sources {
		if script.DigestOf(content) != d {
			n.w.t.Errorf("%s stores %q under another's digest", n.name, content)
		}
		n.sources[d] = content
	}
	return nil
}

func bytesOf(sources map[script.Digest][]byte) int {
	total := 0
	for _, content := range sources {
		total += len(content)
	}
	return total
}

func (n *node) Prepare(_ context.Context, r script.Release, sources map[script.Digest][]byte, _ bool) error {
	if n.compiling != nil {
		close(n.compiling)
	}
	n.mu.Lock()
	n.prepared++
	source, given := sources[r.Active.Digest]
	if !given {
		source = n.sources[r.Active.Digest]
	}
	n.mu.Unlock()
	if script.DigestOf(source) != r.Active.Digest {
		n.w.t.Errorf("%s compiles %q for %v", n.name, source, r.Active.Digest)
	}
	if string(source[:3]) == "bad" {
		return script.Errorf(script.Script, "", "bad source: %s", source)
	}
	return nil
}

func (n *node) Commit(put []follow.Item, removed []string) error {
	if n.committing != nil {
		n.committing()
	}
	if err := n.fault(false); err != nil {
		return err
	}
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	sameFleet := n.w.fleet == n.fleet
	n.fleet = n.w.fleet
	for _, item := range put {
		key, o := item.Key, item.Object
		if item.Sealed == nil && revisionOf(n.live[key]) == o.Revision() {
			continue
		}
		if sameFleet && !n.damaged && o.Revision() < revisionOf(n.live[key]) {
			n.w.t.Errorf("%s went back from %d to %d of %s", n.name, revisionOf(n.live[key]), o.Revision(), key)
		}
		if sum, committed := n.w.commits[key][o.Revision()]; !committed || sum != wire.FingerprintObject(o) || key != o.Key() {
			n.w.t.Errorf("%s has %s at %d, which was never committed", n.name, key, o.Revision())
		}
		if n.lacks(o) {
			n.w.t.Errorf("%s made %s live without its content", n.name, key)
		}
		if !n.tenants.Matches(o.TenantName()) {
			n.w.t.Errorf("%s made %s live, which it does not follow", n.name, key)
		}
		n.live[key], n.committed[key] = o, wire.FingerprintObject(o)
		n.keep(item)
	}
	for _, key := range removed {
		delete(n.live, key)
		delete(n.kept, key)
	}
	return nil
}

// keep puts an entry on the disk, where it has to be believed when it is read.
func (n *node) keep(item follow.Item) {
	var e eventv1.Entry
	if _, err := n.trusted.Open(item.Sealed, &e); err != nil {
		n.w.t.Errorf("%s keeps an entry of %s that it will not believe: %v", n.name, item.Key, err)
	}
	if e.GetFleet() != n.w.fleet || e.GetObject().GetKey() != item.Key || e.GetObject().GetRevision() != int64(item.Object.Revision()) {
		n.w.t.Errorf("%s keeps another entry for %s: %v", n.name, item.Key, &e)
	}
	n.kept[item.Key] = item
}

func (n *node) Reseal(items []follow.Item) error {
	if err := n.fault(false); err != nil {
		return err
	}
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, item := range items {
		if live := revisionOf(n.live[item.Key]); live != item.Object.Revision() {
			n.w.t.Errorf("%s reseals %s at %d, which is live at %d", n.name, item.Key, item.Object.Revision(), live)
		}
		n.keep(item)
	}
	return nil
}

func (n *node) Keys() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	keys := map[string]struct{}{}
	for _, item := range n.kept {
		keys[item.SealedBy] = struct{}{}
	}
	return slices.Sorted(maps.Keys(keys))
}

func (n *node) Checksum(kind script.ObjectKind, _ int, leftOut []string) wire.Sum {
	n.mu.Lock()
	defer n.mu.Unlock()
	var sum wire.Sum
	for key, o := range n.live {
		if o.Kind() == kind && !slices.Contains(leftOut, key) {
			sum.Add(wire.FingerprintObject(o))
		}
	}
	return sum
}

func (n *node) Check(key string) (wire.Sum, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	o, ok := n.live[key]
	if !ok {
		return wire.Sum{}, false
	}
	sum := wire.FingerprintObject(o)
	return sum, sum == n.committed[key]
}

func (n *node) SaveCursor(c follow.Cursor) error {
	if err := n.fault(true); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.Fleet == n.cursor.Fleet && c.Revision < n.cursor.Revision && !n.lost {
		n.w.t.Errorf("%s: the cursor went from %v to %v", n.name, n.cursor, c)
	}
	n.cursor = c
	return nil
}

// Report implements follow.Reporter, and checks that the status is true: every
// object that did not change after the activated revision is live, or gone, as
// it should be, but for the failures.
func (n *node) Report(_ context.Context, s *eventv1.Status, in seal.Session) error {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.GetLeaving() {
		n.leaving++
	}
	if data, err := seal.SealStatus(s, in); err != nil || len(data) > 1<<20 {
		n.w.t.Errorf("%s composed a status of %d bytes that cannot be sent: %v", n.name, len(data), err)
	}
	n.status, n.session = s, in
	n.reports = append(n.reports, time.Now())
	if s.GetFleet() != n.w.fleet || n.damaged {
		return nil
	}
	failed := map[string]int64{}
	for _, f := range s.GetFailures() {
		failed[f.GetKey()] = f.GetRevision()
	}
	for key, revision := range n.w.changed {
		if int64(revision) > s.GetActivatedRevision() || failed[key] == int64(revision) || !n.follows(key) {
			continue
		}
		if slices.Contains(n.w.lost, key) && n.live[key] == (script.Object{}) {
			continue // nobody can tell what it is
		}
		want := revisionOf(n.w.now[key]) // 0 when deleted
		if got := revisionOf(n.live[key]); got != want {
			n.w.t.Errorf("%s reports %d, but %s is at %d instead of %d (failed: %v)", n.name, s.GetActivatedRevision(), key, got, want, failed)
		}
	}
	return nil
}

func (n *node) follows(key string) bool {
	return n.tenants.Matches(tombstone(key, 1).TenantName())
}

// converged says what is wrong with the node, or "".
func (n *node) converged() string {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.status == nil || n.status.GetFleet() != n.w.fleet || script.Revision(n.status.GetActivatedRevision()) < n.w.groups[n.tenants.Group()].last {
		return fmt.Sprintf("its status is %v, the head %d", n.status, n.w.head)
	}
	failed := map[string]bool{}
	for _, f := range n.status.GetFailures() {
		failed[f.GetKey()] = true
	}
	for key, want := range n.w.now {
		if !n.follows(key) {
			continue
		}
		bad := n.w.isBad(key, want)
		if got := revisionOf(n.live[key]); bad != failed[key] || (!bad && got != want.Revision()) {
			return fmt.Sprintf("%s is at %d, wanted %d; bad: %v, reported as failed: %v", key, got, want.Revision(), bad, failed[key])
		}
		if kept := revisionOf(n.kept[key].Object); !bad && (wire.FingerprintObject(n.live[key]) != wire.FingerprintObject(want) || kept != want.Revision()) {
			return fmt.Sprintf("%s is not what it should be at %d, of which %d is on disk", key, want.Revision(), kept)
		}
	}
	for key := range n.live {
		_, there := n.w.now[key]
		if !there && n.w.isBad(key, tombstone(key, n.w.changed[key])) {
			continue // it goes together with what cannot go live
		}
		if !there || !n.follows(key) {
			return key + " is still live"
		}
	}
	return ""
}

// isBad reports whether no node can make the object live: it cannot be compiled, or goes live together
// with what cannot. w.mu is held.
func (w *world) isBad(key string, o script.Object) bool {
	for other, with := range w.now {
		together := with.Revision() == o.Revision() && with.TenantName() == o.TenantName() && o.Tenant == nil
		if (other == key || together) && with.Release != nil && string(w.sources[with.Release.Active.Digest][:3]) == "bad" {
			return true
		}
	}
	return false
}

func (n *node) expect(when string) {
	n.w.t.Helper()
	if wrong := n.converged(); wrong != "" {
		n.w.t.Errorf("%s: %s", when, wrong)
	}
}
