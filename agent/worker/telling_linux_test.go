package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// stuck is the link to a process that takes no change.
type stuck struct{ workerv1.WorkerClient }

func (stuck) Apply(ctx context.Context, _ *workerv1.ApplyRequest, _ ...grpc.CallOption) (*workerv1.ApplyResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestASlowTenantIsLeftBehind: the changes of others do not wait for it, and its calls do
// until it has all of its own.
func TestASlowTenantIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acme := newIdle(t, &bytes.Buffer{})
		p, _ := fake()
		p.client = stuck{}
		acme.become(p, nil)
		acme.pool.byName.Store(&map[string]*tenant{"acme": acme})
		change := []script.Object{{Release: &script.Release{Name: script.Name{Tenant: "acme", Script: "route"}, Deleted: true}}}
		began := time.Now()
		for range 2 {
			acme.pool.Committed(change, nil)
		}
		if took := time.Since(began); took != promptly {
			t.Errorf("two changes took %v, want %v for the first", took, promptly)
		}
		if s := acme.state.Load(); !s.held() || s.process != p {
			t.Error("its calls do not wait")
		}
		acme.become(nil, nil) // it dies, and the next one starts from the changes
		for s := acme.state.Load(); s.held(); s = acme.state.Load() {
			<-s.changed
		}
		began = time.Now()
		acme.pool.Committed(change, nil)
		if took := time.Since(began); took != 0 {
			t.Errorf("the next change took %v", took)
		}
	})
}

// TestNobodyIsSentToAProcessThatFailed: calls that waited for a process to take a change go
// to the next one if it did not.
func TestNobodyIsSentToAProcessThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, client := range map[string]workerv1.WorkerClient{"slow": stuck{}, "broken": broken{}} {
			acme := newIdle(t, &bytes.Buffer{})
			p, _ := fake()
			p.client = client
			acme.become(p, nil)
			acme.pool.byName.Store(&map[string]*tenant{"acme": acme})
			acme.pool.Committed([]script.Object{{Release: &script.Release{Name: script.Name{Tenant: "acme", Script: "route"}, Revision: 1}}}, nil)
			s := acme.state.Load()
			if s.process == p && !s.held() {
				t.Errorf("%s: calls go on before it has the change", name)
			}
			for ; s.held(); s = acme.state.Load() {
				<-s.changed
			}
			if s.process == p {
				t.Errorf("%s: calls go to the process that was killed", name)
			}
		}
	})
}

// broken is the link to a process that refuses each change.
type broken struct{ workerv1.WorkerClient }

func (broken) Apply(context.Context, *workerv1.ApplyRequest, ...grpc.CallOption) (*workerv1.ApplyResponse, error) {
	return nil, errors.New("refused")
}

// TestSlowTenantsAreWaitedForTogether: a commit takes no longer with several tenants whose
// processes are slow, and nothing further as long as they are.
func TestSlowTenantsAreWaitedForTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := map[string]*tenant{}
		var pool *Pool
		var changes []script.Object
		for _, name := range []string{"acme", "shop", "labs"} {
			slow := newIdle(t, &bytes.Buffer{})
			p, _ := fake()
			p.client = stuck{}
			slow.become(p, nil)
			all[name], pool = slow, slow.pool
			changes = append(changes, script.Object{Release: &script.Release{Name: script.Name{Tenant: name, Script: "route"}, Revision: 1}})
		}
		pool.byName.Store(&all)
		for i, want := range []time.Duration{promptly, 0, 0} {
			began := time.Now()
			pool.Committed(changes, nil)
			if took := time.Since(began); took != want {
				t.Errorf("change %d took %v, want %v", i+1, took, want)
			}
			for name, slow := range all {
				if s := slow.state.Load(); !s.held() {
					t.Errorf("after change %d calls of %s do not wait", i+1, name)
				}
			}
		}
		for _, slow := range all {
			for s := slow.state.Load(); s.held(); s = slow.state.Load() {
				<-s.changed
			}
		}
	})
}

// ready returns a fake process, and the recorder that takes its changes.
func ready(t *testing.T, of *tenant) (*process, *recorder) {
	t.Helper()
	p, _ := fake()
	control, theirs, err := link.Packets()
	if err != nil {
		t.Fatal(err)
	}
	page, file, err := link.NewPage()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(control.Close(), theirs.Close(), page.Close(), file.Close()) })
	r := &recorder{}
	p.page, p.pageFile, p.control, p.client, p.home, p.output = page, file, control, r, newHome(of.pool.cfg), newOutput(of.pool.cfg.Log)
	return p, r
}

// recorder is the link to a process that takes all, and notes which revisions come and what
// goes, and who is in quarantine.
type recorder struct {
	workerv1.WorkerClient
	told        []string
	quarantined []string
}

func (r *recorder) Quarantine(_ context.Context, req *workerv1.QuarantineRequest, _ ...grpc.CallOption) (*workerv1.QuarantineResponse, error) {
	r.quarantined = nil
	for _, q := range req.GetScripts() {
		r.quarantined = append(r.quarantined, q.GetScript())
	}
	return &workerv1.QuarantineResponse{}, nil
}

func (r *recorder) Apply(_ context.Context, req *workerv1.ApplyRequest, _ ...grpc.CallOption) (*workerv1.ApplyResponse, error) {
	for _, m := range req.GetPut() {
		o, _, err := wire.ToObject(m)
		if err != nil {
			return nil, err
		}
		if o.Release != nil {
			r.told = append(r.told, fmt.Sprint(o.Release.Revision))
		}
	}
	for range req.GetGone() {
		r.told = append(r.told, "gone")
	}
	return &workerv1.ApplyResponse{}, nil
}

// releaseOf returns a release of which each revision runs something else.
func releaseOf(name script.Name, revision script.Revision) *script.Release {
	v := script.Version{Number: uint64(revision), Digest: script.Digest{byte(revision)}, Engine: "lua"}
	return &script.Release{Name: name, Revision: revision, Active: v, Retained: []script.Version{v}, Latest: v.Number}
}

// TestNothingOlderIsToldLater: a process that starts while changes are queued gets what is
// live, with the change that is not live yet, and no change before that.
func TestNothingOlderIsToldLater(t *testing.T) {
	name := script.Name{Tenant: "acme", Script: "route"}
	type step struct {
		revision script.Revision // 0 removes the script
		told     bool            // to the process before
		live     bool
	}
	for _, tt := range []struct {
		name  string
		steps []step
		want  string
	}{
		{"the process has none", []step{{1, false, true}, {2, false, true}}, "2"},
		{"the last is not live", []step{{1, false, true}, {2, false, false}}, "2"},
		{"the process has the first", []step{{1, true, true}, {2, false, true}}, "2"},
		{"the process has the last, and it is not live", []step{{1, true, true}, {2, true, false}}, "2"},
		{"removed and published again", []step{{1, true, true}, {0, true, true}, {3, false, true}}, "3"},
		{"removed", []step{{1, false, true}, {0, false, false}}, "gone"},
	} {
		acme := newIdle(t, &bytes.Buffer{})
		for _, s := range tt.steps {
			acme.telling.running = true // as if the one that tells were busy
			c := &change{gone: []string{wire.ReleaseKey(name)}}
			if s.revision > 0 {
				c = &change{put: []script.Object{{Release: releaseOf(name, s.revision)}}}
			}
			if acme.tell(c); s.told {
				acme.tellAll()
			}
			switch {
			case !s.live:
			case s.revision == 0:
				acme.pool.cfg.Node.Table.Update(nil, []script.Name{name})
			default:
				acme.pool.cfg.Node.Table.Update([]*cache.Release{cache.NewRelease(*c.put[0].Release)}, nil)
			}
		}
		p, told := ready(t, acme)
		if err := acme.giveAll(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		acme.tellAll()
		if got := strings.Join(told.told, " "); got != tt.want {
			t.Errorf("%s: the process gets %s, want %s", tt.name, got, tt.want)
		}
		for _, s := range acme.telling.waiting {
			t.Errorf("%s: %+v is left", tt.name, s.change)
		}
	}
}

// TestAFixThatComesLate ends the quarantine of what it replaces, also when it is live in the
// agent by the time that a process gets it.
func TestAFixThatComesLate(t *testing.T) {
	name := script.Name{Tenant: "acme", Script: "route"}
	killer := map[script.Name]script.Revision{name: 1}
	late := func(t *testing.T) *tenant {
		t.Helper()
		acme := newIdle(t, &bytes.Buffer{})
		acme.blame = newBlame(QuarantinePolicy{Deaths: 1}.withDefaults())
		acme.pool.cfg.Node.Table.Update([]*cache.Release{cache.NewRelease(*releaseOf(name, 1))}, nil)
		acme.telling.running = true // as if the one that tells were busy
		return acme
	}
	fix := func(acme *tenant) {
		r := releaseOf(name, 2)
		acme.tell(&change{put: []script.Object{{Release: r}}})
		acme.pool.cfg.Node.Table.Update([]*cache.Release{cache.NewRelease(*r)}, nil)
	}
	t.Run("to the process that there is", func(t *testing.T) {
		acme := late(t)
		acme.died(killer)
		p, told := ready(t, acme)
		told.quarantined = []string{name.String()}
		acme.become(p, nil)
		fix(acme)
		if acme.tellAll(); len(acme.quarantined()) != 0 || len(told.quarantined) != 0 {
			t.Errorf("in quarantine: %v, and the process keeps %v from running", acme.quarantined(), told.quarantined)
		}
	})
	t.Run("to the next process", func(t *testing.T) {
		acme := late(t)
		acme.died(killer)
		fix(acme)
		p, _ := ready(t, acme)
		if err := acme.giveAll(t.Context(), p); err != nil || len(acme.quarantined()) != 0 {
			t.Errorf("in quarantine: %v, %v", acme.quarantined(), err)
		}
	})
	for _, told := range []bool{false, true} {
		t.Run(fmt.Sprintf("after a death, and taken off the queue without a process: %v", told), func(t *testing.T) {
			acme := late(t)
			fix(acme)
			if told { // while there is none
				acme.tellAll()
			}
			if acme.died(map[script.Name]script.Revision{name: 2}); len(acme.quarantined()) != 0 { // which is what is live
				t.Errorf("in quarantine: %v", acme.quarantined())
			}
		})
	}
	t.Run("and is none", func(t *testing.T) {
		acme := late(t)
		fix(acme)
		p, _ := ready(t, acme)
		acme.become(p, nil)
		acme.tellAll()
		if acme.died(map[script.Name]script.Revision{name: 2}); len(acme.quarantined()) != 1 {
			t.Errorf("in quarantine: %v", acme.quarantined())
		}
	})
}

// TestPositionOfAProcessThatIsBehind: what a process answers over the tenant's own sockets
// does not claim a change that it has yet to make live.
func TestPositionOfAProcessThatIsBehind(t *testing.T) {
	acme := newIdle(t, &bytes.Buffer{})
	p, _ := ready(t, acme)
	p.conn, _ = connected(t)
	now := time.Unix(1_000_000, 0)
	p.beat = now
	acme.become(p, nil)
	acme.look(gateway.Position{Revision: 1, Staleness: time.Second}, now)

	acme.telling.running = true // as if the one that tells were busy
	acme.leaveBehind(acme.tell(&change{}))
	for i := range 3 {
		now = now.Add(watchEvery)
		acme.look(gateway.Position{Revision: 2}, now)
		want := gateway.Position{Revision: 1, Staleness: time.Second + time.Duration(i+1)*watchEvery}
		if at := p.page.Position(); at != want {
			t.Errorf("while it is behind it says %+v, want %+v", at, want)
		}
	}
	acme.tellAll()
	acme.look(gateway.Position{Revision: 2}, now)
	if at := p.page.Position(); at != (gateway.Position{Revision: 2}) {
		t.Errorf("when it has the change it says %+v", at)
	}
}

// TestWhoIsBehindCatchesUp: the agent sends the changes that wait together.
func TestWhoIsBehindCatchesUp(t *testing.T) {
	names := []script.Name{{Tenant: "acme", Script: "a"}, {Tenant: "acme", Script: "b"}, {Tenant: "acme", Script: "c"}}
	put := func(name, revision int) *change {
		return &change{put: []script.Object{{Release: releaseOf(names[name], script.Revision(revision))}}}
	}
	gone := func(name int) *change { return &change{gone: []string{wire.ReleaseKey(names[name])}} }
	for _, tt := range []struct {
		want    string
		changes []*change
	}{
		{"3", []*change{put(0, 1), put(0, 2), put(0, 3)}},
		{"1 2", []*change{put(0, 1), put(1, 2)}},
		{"2 gone", []*change{put(0, 1), put(1, 2), gone(0)}},
		{"3", []*change{gone(0), put(0, 3)}},
		{"gone", []*change{put(0, 1), gone(0), put(0, 2), gone(0)}},
		{"3 4 gone", []*change{gone(2), put(0, 3), put(1, 4)}},
		{"1", []*change{put(0, 1)}},
		{"", nil},
	} {
		acme := newIdle(t, &bytes.Buffer{})
		p, told := ready(t, acme)
		acme.become(p, nil)
		acme.telling.running = true // as if the one that tells were busy
		for _, c := range tt.changes {
			acme.tell(c)
		}
		acme.tellAll()
		if got := strings.Join(told.told, " "); got != tt.want {
			t.Errorf("the process gets %q, want %q", got, tt.want)
		}
	}
}

// gated is the link to a process that takes a change when it may.
type gated struct {
	workerv1.WorkerClient
	asked, goOn chan struct{}
}

func (g gated) Apply(context.Context, *workerv1.ApplyRequest, ...grpc.CallOption) (*workerv1.ApplyResponse, error) {
	g.asked <- struct{}{}
	<-g.goOn
	return &workerv1.ApplyResponse{}, nil
}

// TestACallWaitsForWhatWasThere: a call waits for the changes that were live when it came, and
// for none that come while it waits.
func TestACallWaitsForWhatWasThere(t *testing.T) {
	acme := newIdle(t, &bytes.Buffer{})
	p, _ := fake()
	p.conn, _ = connected(t)
	slow := gated{asked: make(chan struct{}), goOn: make(chan struct{})}
	p.client = slow
	acme.become(p, nil)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	serves := func(change int) bool {
		got, err := acme.processWith(cancelled, change)
		return err == nil && got == p
	}
	acme.leaveBehind(acme.tell(&change{}))
	<-slow.asked
	first := acme.state.Load().late
	if acme.tell(&change{}) != nil {
		t.Error("it is waited for, though it is behind")
	}
	second := acme.state.Load().late
	if serves(first) || serves(second) || !serves(0) {
		t.Errorf("before it has any: %v, %v, and a call from before: %v", serves(first), serves(second), serves(0))
	}
	slow.goOn <- struct{}{}
	<-slow.asked
	if !serves(first) || serves(second) || !acme.state.Load().held() {
		t.Errorf("when it has the first: %v, %v", serves(first), serves(second))
	}
	slow.goOn <- struct{}{}
	if got, err := acme.process(t.Context()); err != nil || got != p {
		t.Errorf("when it has both: %v", err)
	}
}

// sluggish is the link to a process that takes each change, but not at once: it compiles.
type sluggish struct {
	*recorder
	takes time.Duration
}

func (s sluggish) Apply(ctx context.Context, req *workerv1.ApplyRequest, opts ...grpc.CallOption) (*workerv1.ApplyResponse, error) {
	select {
	case <-time.After(s.takes):
		return s.recorder.Apply(ctx, req, opts...)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestATenantThatCompilesHoldsUpNobody: the changes of others wait for a tenant's process for
// a tenth of the time, however many changes it takes, and it takes all of them.
func TestATenantThatCompilesHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acme := newIdle(t, &bytes.Buffer{})
		p, _ := fake()
		process := sluggish{&recorder{}, promptly / 4}
		p.client = process
		acme.become(p, nil)
		acme.pool.byName.Store(&map[string]*tenant{"acme": acme})
		const changes = 50
		began, waited := time.Now(), time.Duration(0)
		each := time.NewTicker(promptly / 2)
		defer each.Stop()
		for i := range script.Revision(changes) {
			before := time.Now()
			acme.pool.Committed([]script.Object{{Release: releaseOf(script.Name{Tenant: "acme", Script: "route"}, i+1)}}, nil)
			waited += time.Since(before)
			<-each.C
		}
		if all := time.Since(began); waited > promptly+all/10 {
			t.Errorf("changes waited for %v of %v", waited, all)
		}
		synctest.Wait()
		if last := process.told[len(process.told)-1]; last != fmt.Sprint(changes) || acme.state.Load().held() {
			t.Errorf("it has revision %s, and calls wait: %v", last, acme.state.Load().held())
		}
	})
}

// TestKeysThatChangeBesideACommit: a process that gets anew what is live is not told what it has
// something newer of, and not before another is where a commit has come meanwhile.
func TestKeysThatChangeBesideACommit(t *testing.T) {
	name := script.Name{Tenant: "acme", Script: "route"}
	began := func(t *testing.T) (*tenant, *recorder) {
		t.Helper()
		acme := newIdle(t, &bytes.Buffer{})
		acme.pool.cfg.Node.Table.Update([]*cache.Release{cache.NewRelease(*releaseOf(name, 1))}, nil)
		p, told := ready(t, acme)
		acme.become(p, nil)
		acme.telling.running = true // as if the one that tells were busy
		acme.filtered = true        // as if the tenant's scripts needed signatures
		return acme, told
	}
	t.Run("of other tenants", func(t *testing.T) {
		acme, told := began(t)
		acme.filtered = false
		acme.tell(&change{again: true})
		if acme.tellAll(); len(told.told) != 0 {
			t.Errorf("the process gets %v, want nothing", told.told)
		}
	})
	for want, c := range map[string]*change{
		"2 2":       {put: []script.Object{{Release: releaseOf(name, 2)}}},
		"gone gone": {gone: []string{wire.ReleaseKey(name)}},
	} {
		t.Run(want, func(t *testing.T) {
			acme, told := began(t)
			acme.tell(c) // which is not live in the agent yet
			acme.tellAll()
			acme.telling.running = true
			acme.tell(&change{again: true})
			if acme.tellAll(); strings.Join(told.told, " ") != want {
				t.Errorf("the process gets %v, want %s", told.told, want)
			}
		})
	}
	t.Run("settings and a fix", func(t *testing.T) {
		acme, told := began(t)
		acme.blame = newBlame(QuarantinePolicy{Deaths: 1}.withDefaults())
		acme.died(map[script.Name]script.Revision{name: 1})
		told.quarantined = []string{name.String()}
		again := &change{again: true}
		acme.tell(again)
		settings := acme.settings
		settings.MemoryBytes *= 2
		acme.tell(&change{settings: &settings, put: []script.Object{{Release: releaseOf(name, 2)}}})
		acme.mu.Lock()
		acme.finish(again.number, acme.apply(again)) // it was under way when the commit came
		acme.mu.Unlock()
		acme.tellAll()
		if len(acme.another) != 1 {
			t.Error("a process with the new limits does not take its place")
		}
		if len(acme.quarantined()) != 0 || len(told.quarantined) != 0 {
			t.Errorf("in quarantine: %v, and the process keeps %v from running", acme.quarantined(), told.quarantined)
		}
	})
}

// TestMuchThatIsLive: a process gets all that is live of a large tenant, on a busy machine, too,
// when it starts and when the keys of publishers change. The bounds are for each message.
func TestMuchThatIsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acme := newIdle(t, &bytes.Buffer{})
		const scripts = 100
		for i := range script.Revision(scripts) {
			r := releaseOf(script.Name{Tenant: "acme", Script: fmt.Sprint("route-", i)}, i+1)
			r.Settings.Config = bytes.Repeat([]byte("x"), 64<<10)
			acme.pool.cfg.Node.Table.Update([]*cache.Release{cache.NewRelease(*r)}, nil)
		}
		p, told := ready(t, acme)
		p.client = sluggish{told, tellPatience / 4}
		for range 2 {
			told.told = nil
			began := time.Now()
			if err := acme.giveAll(t.Context(), p); err != nil || len(told.told) != scripts {
				t.Fatalf("at the start, the process gets %d scripts of %d: %v", len(told.told), scripts, err)
			}
			if took := time.Since(began); took < handOverPatience {
				t.Errorf("the agent needed only %v, which tests no slow process", took)
			}
			told.told, acme.filtered = nil, true // as if the tenant's scripts needed signatures
			acme.telling.running = true
			acme.tell(&change{again: true})
			acme.tellAll()
			if s := acme.state.Load(); s.process != p || len(told.told) != scripts {
				t.Errorf("after a change of keys, the process gets %d scripts of %d; replaced: %v", len(told.told), scripts, s.process != p)
			}
		}
	})
}
