package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// objectTruth is the memory of all values and settings of tenants that were ever
// committed.
type objectTruth struct {
	mu    sync.Mutex
	byKey map[string][]script.Object // oldest first
}

func (t *objectTruth) remember(o script.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byKey == nil {
		t.byKey = map[string][]script.Object{}
	}
	t.byKey[o.Key()] = append(t.byKey[o.Key()], o)
}

// asOf returns what the object with the key was at the revision; ok is false if it had
// never been.
func (t *objectTruth) asOf(key string, at script.Revision) (o script.Object, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range slices.Backward(t.byKey[key]) {
		if o.Revision() <= at {
			return o, true
		}
	}
	return script.Object{}, false
}

// isTrue reports whether the object was ever committed so.
func (t *objectTruth) isTrue(o script.Object) bool {
	made, ok := t.asOf(o.Key(), o.Revision())
	return ok && wire.FingerprintObject(made) == wire.FingerprintObject(o)
}

// deletedAfter reports whether the object was deleted after the revision.
func (t *objectTruth) deletedAfter(key string, at script.Revision) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.byKey[key], func(o script.Object) bool { return o.Deleted() && o.Revision() > at })
}

// keys of all objects that ever were, sorted.
func (t *objectTruth) keys() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	keys := make([]string, 0, len(t.byKey))
	for key := range t.byKey {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// head is the revision of the last change of an object that the selector selects.
func (t *objectTruth) head(tenants script.Selector) (head script.Revision) {
	for _, key := range t.keys() {
		if o, _ := t.asOf(key, 1<<62); tenants.Matches(o.TenantName()) {
			head = max(head, o.Revision())
		}
	}
	return head
}

// CommitValue implements registry.Store, as Commit does.
func (t *truth) CommitValue(ctx context.Context, c registry.ValueCommit) (script.Revision, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	revision, err := t.Store.CommitValue(ctx, c)
	if err == nil {
		c.Value.Revision = revision
		t.objects.remember(script.Object{Value: &c.Value})
	}
	return revision, err
}

// CommitTenant implements registry.Store, as Commit does.
func (t *truth) CommitTenant(ctx context.Context, c registry.TenantCommit) (script.Revision, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	revision, err := t.Store.CommitTenant(ctx, c)
	if err == nil {
		c.Tenant.Revision = revision
		t.objects.remember(script.Object{Tenant: &c.Tenant})
	}
	return revision, err
}

// verifyObjects finds out whether the store has kept values and settings.
func (t *truth) verifyObjects(ctx context.Context) error {
	for _, key := range t.objects.keys() {
		last, _ := t.objects.asOf(key, 1<<62)
		data, err := t.DataUsage(ctx, script.ValueKey{Tenant: last.TenantName(), Key: keyOfValue(last)})
		if err != nil {
			return fmt.Errorf("%s is lost: %w", key, err)
		}
		now := script.Object{Tenant: &data.Tenant}
		if last.Value != nil {
			now = script.Object{Value: &data.Value}
		}
		if purged := now.Revision() == 0; purged && last.Deleted() {
			continue
		}
		if now.Revision() != last.Revision() || wire.FingerprintObject(now) != wire.FingerprintObject(last) {
			return fmt.Errorf("%s is at revision %d, though %d was the last commit", key, now.Revision(), last.Revision())
		}
		if err := t.verifyHistory(data.History, key); err != nil {
			return err
		}
		for c := range now.Contents {
			if _, err := t.Source(ctx, c.Digest); err != nil {
				return fmt.Errorf("the content of %s is lost: %w", key, err)
			}
		}
	}
	return nil
}

func keyOfValue(o script.Object) string {
	if o.Value == nil {
		return ""
	}
	return o.Value.Key.Key
}

// DataUsage implements registry.Store.
func (l *storeLink) DataUsage(ctx context.Context, key script.ValueKey) (registry.DataUsage, error) {
	if _, err := l.pass(ctx); err != nil {
		return registry.DataUsage{}, err
	}
	return l.Store.DataUsage(ctx, key)
}

// CommitValue implements registry.Store.
func (l *storeLink) CommitValue(ctx context.Context, c registry.ValueCommit) (script.Revision, error) {
	lost, err := l.pass(ctx)
	if err != nil {
		return 0, err
	}
	revision, err := l.Store.CommitValue(ctx, c)
	if lost {
		return 0, errNoStore
	}
	return revision, err
}

// CommitTenant implements registry.Store.
func (l *storeLink) CommitTenant(ctx context.Context, c registry.TenantCommit) (script.Revision, error) {
	lost, err := l.pass(ctx)
	if err != nil {
		return 0, err
	}
	revision, err := l.Store.CommitTenant(ctx, c)
	if lost {
		return 0, errNoStore
	}
	return revision, err
}

// valueKeys are those that writers write.
var valueKeys = []string{"flags", "prices/eu", "prices/us"}

// performObject makes a change of a value or of a tenant's settings. It is the same however often it
// happens. What is acknowledged must have happened.
func (w *world) performObject(st step) {
	r := rand.New(rand.NewPCG(st.seed, 6))
	ask, key := w.newObject(r)
	w.retry(st, r, key, func(ctx context.Context, rules *registry.Registry) error {
		revision, err := ask(ctx, rules)
		if err != nil {
			return err
		}
		w.log("#%d writer: %s: revision %d", st.number, key, revision)
		if made, ok := w.truth.objects.asOf(key, revision); revision != 0 && (!ok || made.Revision() != revision) {
			w.violate("a change of %s was acknowledged with revision %d, and did not happen", key, revision)
		}
		return nil
	})
}

// retry sends a write to any of the registries, again and again while nobody answers it.
func (w *world) retry(st step, r *rand.Rand, what string, write func(context.Context, *registry.Registry) error) {
	for attempt := range writeAttempts {
		if attempt > 0 && rest(w.ctx, within(r, writeTimeout/4)) != nil {
			return
		}
		server := w.anyServer(r)
		if server == nil || r.IntN(8) == 0 { // the request is lost
			continue
		}
		ctx, cancel := context.WithTimeout(server.life, writeTimeout)
		err := write(ctx, server.registry)
		cancel()
		switch script.KindOf(err) {
		case script.Unavailable, script.Internal:
			continue
		case "":
		default:
			w.log("#%d writer: %s: %v", st.number, what, err)
		}
		return
	}
	w.log("#%d writer: %s: given up", st.number, what)
}

// newObject returns a change of the object with the key, which returns its revision.
func (w *world) newObject(r *rand.Rand) (ask func(context.Context, *registry.Registry) (script.Revision, error), key string) {
	tenant, by := tenants[r.IntN(len(tenants))], access.Everybody("sim")
	if r.IntN(4) == 0 {
		req := registry.SetTenant{Tenant: tenant, Author: "writer", By: by}
		if r.IntN(3) > 0 {
			req.Settings = &script.TenantSettings{CPU: 1 + r.IntN(3), Isolation: script.IsolationProcess}
		}
		return func(ctx context.Context, rules *registry.Registry) (script.Revision, error) {
			t, _, err := rules.SetTenant(ctx, req)
			return t.Revision, err
		}, string(script.Tenants) + "/" + tenant
	}
	name := script.ValueKey{Tenant: tenant, Key: valueKeys[r.IntN(len(valueKeys))]}
	key = string(script.Values) + "/" + name.String()
	if r.IntN(4) == 0 {
		return func(ctx context.Context, rules *registry.Registry) (script.Revision, error) {
			v, err := rules.DeleteValue(ctx, registry.DeleteValue{Key: name, Author: "writer", By: by})
			return v.Revision, err
		}, key
	}
	if r.IntN(4) == 0 {
		return w.rollbackValue(r, name), key
	}
	content := fmt.Appendf(nil, "content %d", r.IntN(6))
	if r.IntN(8) == 0 { // it does not travel with the event
		content = append(content, strings.Repeat(" ", 65<<10)...)
	}
	return func(ctx context.Context, rules *registry.Registry) (script.Revision, error) {
		v, _, err := rules.PutValue(ctx, registry.PutValue{Key: name, Content: content, Author: "writer", By: by})
		return v.Revision, err
	}, key
}

// isRelease reports whether the object with the key is a release.
func isRelease(key string) bool { return strings.HasPrefix(key, keyPrefix) }

// liveObject returns the revision of the value, or of the settings, with the key, and
// whether it is as it was committed; 0 if there is none.
func (p *process) liveObject(key string) (revision script.Revision, sum wire.Sum) {
	in, name := p.tableOf(key)
	sum, _ = in.Check(name)
	return in.Revision(name), sum
}

// checkObjects looks at what must be true of values and settings at every moment.
func (a *agent) checkObjects(p *process) {
	for key := range p.Live() {
		if isRelease(key) {
			continue
		}
		a.mu.Lock()
		drifted := a.driftedKeys[key]
		a.mu.Unlock()
		revision, sum := p.liveObject(key)
		if made, ok := a.w.truth.objects.asOf(key, revision); !drifted && (!ok || made.Revision() != revision || wire.FingerprintObject(made) != sum) {
			a.w.violate("%s has %s of revision %d, which was never committed so", a.name, key, revision)
		}
	}
}

// makeObjectLive notes that a value, or settings, go live. a.mu is held.
func (a *agent) makeObjectLive(o script.Object) {
	key := o.Key()
	if !a.w.truth.objects.isTrue(o) {
		a.w.violate("%s makes %s of revision %d live, which was never committed so", a.name, key, o.Revision())
	}
	if o.Revision() < a.reachedKeys[key] {
		a.w.violate("%s goes back from revision %d of %s to %d", a.name, a.reachedKeys[key], key, o.Revision())
	}
	if !a.tenants.Matches(o.TenantName()) {
		a.w.violate("%s makes %s live, which it does not follow", a.name, key)
	}
	for c := range o.Contents {
		if !a.disk.has(c.Digest) {
			a.w.violate("%s makes %s live without its content", a.name, key)
		}
	}
	a.reachedKeys[key] = o.Revision()
	delete(a.driftedKeys, key)
}

// removeObject notes that a value, or settings, are gone. a.mu is held.
func (a *agent) removeObject(p *process, key string) {
	revision, _ := p.liveObject(key)
	if !a.driftedKeys[key] && revision != 0 && !a.w.truth.objects.deletedAfter(key, revision) {
		a.w.violate("%s removes %s of revision %d, which was not deleted", a.name, key, revision)
	}
	delete(a.driftedKeys, key)
}

// checkObjectStatus finds out whether a status is true of values and settings, as
// checkStatus does of releases.
func (a *agent) checkObjectStatus(p *process, activated script.Revision, failed map[string]script.Revision) {
	for _, key := range a.w.truth.objects.keys() {
		want, ok := a.w.truth.objects.asOf(key, activated)
		a.mu.Lock()
		drifted := a.driftedKeys[key]
		a.mu.Unlock()
		if !ok || drifted || !a.tenants.Matches(want.TenantName()) || failed[key] >= want.Revision() {
			continue
		}
		got, _ := p.liveObject(key)
		switch {
		case got > activated: // newer than it needs to be
		case want.Deleted() && got != 0:
			a.w.violate("%s reports %d, and still has %s of revision %d, which was deleted at %d", a.name, activated, key, got, want.Revision())
		case want.Deleted():
		case got == 0 && a.w.truth.objects.deletedAfter(key, want.Revision()):
		case got != want.Revision():
			a.w.violate("%s reports %d, and has %s of revision %d instead of %d", a.name, activated, key, got, want.Revision())
		}
	}
}

// unsettledObject says what of values and settings is not as the registry has it; ""
// if nothing.
func (a *agent) unsettledObject(failed map[string]script.Revision) string {
	for _, key := range a.w.truth.objects.keys() {
		want, _ := a.w.truth.objects.asOf(key, 1<<62)
		got, sum := a.process.liveObject(key)
		switch {
		case !a.tenants.Matches(want.TenantName()) && got != 0:
			return fmt.Sprintf("%s has %s, which it does not follow", a.name, key)
		case !a.tenants.Matches(want.TenantName()):
		case failed[key] != 0 && a.isHeld(want.TenantName(), want.Revision()):
		case failed[key] != 0:
			return fmt.Sprintf("%s fails at %s of revision %d", a.name, key, failed[key])
		case want.Deleted() && got != 0:
			return fmt.Sprintf("%s has %s, which was deleted", a.name, key)
		case !want.Deleted() && (got != want.Revision() || sum != wire.FingerprintObject(want)):
			return fmt.Sprintf("%s does not have %s as of revision %d, but of %d", a.name, key, want.Revision(), got)
		}
	}
	return ""
}

// driftObject takes a value, or settings, from an agent behind its follower's back. It
// returns false if there is none. a.mu is held.
func (a *agent) driftObject(p *process, r *rand.Rand, number int) bool {
	var keys []string
	for key := range p.Live() {
		if !isRelease(key) && !a.driftedKeys[key] {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return false
	}
	slices.Sort(keys)
	key := keys[r.IntN(len(keys))]
	a.driftedKeys[key] = true
	a.w.log("#%d %s drifts: %s is not there", number, a.name, key)
	p.swap(nil, []string{key})
	return true
}
