package registry

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// A tenant can write at once what its rates allow in that many seconds: a folder of
	// manifests, or an archive.
	burstOfWrites     = 100
	burstOfWriteBytes = 128

	// recordBytes is about what a write stores besides its source or value: the release,
	// its history and the audit trail.
	recordBytes = 2 << 10

	// maxRates is how many tenants have rates in memory before idle ones are forgotten.
	maxRates = 1024
)

// rates bound what each tenant writes a second. Every replica counts for itself.
type rates struct {
	mu      sync.Mutex
	tenants map[string]*tenantRate
}

func newRates() *rates { return &rates{tenants: map[string]*tenantRate{}} }

// tenantRate are the rates of one tenant.
type tenantRate struct{ writes, bytes *rate.Limiter }

// of returns the tenant's rates, as its settings say now.
func (r *rates) of(tenant string, settings script.TenantSettings) tenantRate {
	settings = settings.OrDefaults()
	writes, bytes := rate.Limit(settings.Writes), rate.Limit(settings.WriteBytes)
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tenants[tenant]
	if t == nil {
		r.forgetIdle()
		t = &tenantRate{
			writes: rate.NewLimiter(writes, settings.Writes*burstOfWrites),
			bytes:  rate.NewLimiter(bytes, settings.WriteBytes*burstOfWriteBytes),
		}
		r.tenants[tenant] = t
	}
	if t.writes.Limit() != writes {
		t.writes.SetLimit(writes)
		t.writes.SetBurst(settings.Writes * burstOfWrites)
	}
	if t.bytes.Limit() != bytes {
		t.bytes.SetLimit(bytes)
		t.bytes.SetBurst(settings.WriteBytes * burstOfWriteBytes)
	}
	return *t
}

// forgetIdle makes room: a tenant that has its whole burst is as good as new. r.mu is held.
func (r *rates) forgetIdle() {
	if len(r.tenants) < maxRates {
		return
	}
	for name, t := range r.tenants {
		if t.writes.Tokens() >= float64(t.writes.Burst()) && t.bytes.Tokens() >= float64(t.bytes.Burst()) {
			delete(r.tenants, name)
		}
	}
}

// take counts a write of that many bytes, or refuses it.
func (r *rates) take(tenant string, settings script.TenantSettings, size int) error {
	t, now := r.of(tenant, settings), time.Now()
	size = min(size+recordBytes, t.bytes.Burst())
	writes := t.writes.ReserveN(now, 1)
	if wait := writes.DelayFrom(now); wait > 0 {
		writes.CancelAt(now)
		return tooFast(tenant, quotaWrites, "--writes NUMBER", int(t.writes.Limit()), wait)
	}
	bytes := t.bytes.ReserveN(now, size)
	if wait := bytes.DelayFrom(now); wait > 0 {
		bytes.CancelAt(now)
		writes.CancelAt(now)
		return tooFast(tenant, quotaWriteBytes, "--write-rate SIZE", int(t.bytes.Limit()), wait)
	}
	return nil
}

func tooFast(tenant, setting, flag string, most int, wait time.Duration) error {
	return overQuota(script.Overloaded, setting, quotaUse{quota: setting, most: int64(most)}, "the tenant %s writes faster than its %s, %d a second: try again in %v, or have an administrator raise it: scriptctl tenant set %s %s",
		tenant, setting, most, wait.Round(time.Millisecond), tenant, flag)
}

// wait counts a write of that many bytes as soon as the rates allow it.
func (r *rates) wait(ctx context.Context, tenant string, settings script.TenantSettings, size int) error {
	t := r.of(tenant, settings)
	if err := t.writes.Wait(ctx); err != nil {
		return script.Errorf(script.Overloaded, "writes", "the tenant %s: %w", tenant, err)
	}
	if err := t.bytes.WaitN(ctx, min(size+recordBytes, t.bytes.Burst())); err != nil {
		return script.Errorf(script.Overloaded, "writeBytes", "the tenant %s: %w", tenant, err)
	}
	return nil
}

// withinQuota refuses a version that is more than its tenant may have. What makes less of it
// is never refused: the quota may have been lowered since. It goes by what this replica has
// seen, so that replicas together can let a few more through.
func (r *Registry) withinQuota(b basis, d *decision) error {
	staged := stagedBytes(d.release) > stagedBytes(b.release)
	if !d.changed || d.commit.Publish == nil && !staged {
		return nil
	}
	if err := r.space(); err != nil {
		return err
	}
	if r.recent == nil {
		return nil
	}
	tenant, err := b.tenant()
	if err != nil {
		return err
	}
	name, most := d.commit.Release.Name, tenant.Settings.OrDefaults()
	used := r.recent.usage(name.Tenant)
	used.scripts, used.bytes = used.scripts+b.also.scripts, used.bytes+b.also.bytes
	if used.scripts >= most.Scripts && !live(b.release) {
		return overQuota(script.Limit, "name", quotaUse{quotaScripts, int64(used.scripts), int64(most.Scripts)}, "the tenant %s has %d scripts, and may have %d: delete some, or have an administrator raise it: scriptctl tenant set %s --scripts NUMBER",
			name.Tenant, used.scripts, most.Scripts, name.Tenant)
	}
	grows := sourceBytes(d.commit.Release) - sourceBytes(b.release)
	if grows > 0 && used.bytes+grows > most.SourceBytes {
		return overQuota(script.Limit, "source", quotaUse{quotaSourceBytes, used.bytes, most.SourceBytes}, "the sources of the tenant %s have %d of %d bytes, and would have %d: delete scripts, or have an administrator raise it: scriptctl tenant set %s --sources SIZE",
			name.Tenant, used.bytes, most.SourceBytes, used.bytes+grows, name.Tenant)
	}
	if !live(b.release) {
		used.scripts++
	}
	d.uses = []quotaUse{{quotaScripts, int64(used.scripts), int64(most.Scripts)}, {quotaSourceBytes, used.bytes + grows, most.SourceBytes}}
	return nil
}

// sourceBytes returns how many bytes the sources of all retained versions have, the documents of what
// they run with, and what is staged for the candidate.
func sourceBytes(r script.Release) (n int64) {
	if r.Deleted {
		return 0
	}
	n = stagedBytes(r)
	for _, v := range r.Retained {
		n += int64(v.Size + v.SpecSize)
	}
	return n
}

// stagedBytes returns how many bytes the contents have that the candidate's change set stages. They count for
// the first of its scripts.
func stagedBytes(r script.Release) (n int64) {
	c := r.Candidate
	if c == nil || c.Set == nil || len(c.Set.Scripts) == 0 || c.Set.Scripts[0] != r.Name.Script {
		return 0
	}
	for _, v := range c.Set.Values {
		n += int64(v.Size)
	}
	return n
}

// usage is what a tenant has.
type usage struct {
	scripts int
	bytes   int64 // as sourceBytes, of all scripts
}

// usages count what each tenant has.
type usages struct {
	tenants map[string]usage
	scripts map[script.Name]scriptUsage
	events  map[tenantEvent]int // the scripts that take a place of each
}

// scriptUsage is what a script counts for.
type scriptUsage struct {
	size   int64
	events [2]string // see eventsOf
}

func newUsages(releases []script.Release) usages {
	u := usages{tenants: map[string]usage{}, scripts: make(map[script.Name]scriptUsage, len(releases)), events: map[tenantEvent]int{}}
	for _, release := range releases {
		u.put(release)
	}
	return u
}

// put counts the release in place of what it was before.
func (u usages) put(release script.Release) {
	name := release.Name
	t := u.tenants[name.Tenant]
	if was, ok := u.scripts[name]; ok {
		t.scripts--
		t.bytes -= was.size
		u.place(name.Tenant, was.events, -1)
		delete(u.scripts, name)
	}
	if live(release) {
		is := scriptUsage{sourceBytes(release), eventsOf(release)}
		t.scripts++
		t.bytes += is.size
		u.place(name.Tenant, is.events, 1)
		u.scripts[name] = is
	}
	if t == (usage{}) {
		delete(u.tenants, name.Tenant)
		return
	}
	u.tenants[name.Tenant] = t
}

// place adds so many places of the events.
func (u usages) place(tenant string, events [2]string, places int) {
	for _, name := range events {
		if name == "" {
			continue
		}
		of := tenantEvent{tenant, name}
		if u.events[of] += places; u.events[of] == 0 {
			delete(u.events, of)
		}
	}
}
