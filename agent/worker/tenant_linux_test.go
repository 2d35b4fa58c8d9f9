package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
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

// newIdle returns a tenant of a pool without processes.
func newIdle(t *testing.T, log *bytes.Buffer) *tenant {
	t.Helper()
	p, err := New(Config{
		Node: Node{
			Table: cache.NewTable(), Tenants: cache.NewTenants(), Values: cache.NewValues(nil, 1),
			Position: func(time.Time) gateway.Position { return gateway.Position{} },
		},
		Dir: filepath.Join(t.TempDir(), "t"), Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return newTenant(p, "acme", script.TenantSettings{}.OrDefaults(), nil)
}

// TestSockets: those that cannot be opened are tried again, the log is not filled with
// it, and the folder stays when the agent stops.
func TestSockets(t *testing.T) {
	var log bytes.Buffer
	acme := newIdle(t, &log)
	folder := filepath.Join(acme.pool.cfg.Dir, "acme")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	inTheWay := filepath.Join(folder, "http.sock")
	if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !acme.listen() || len(acme.sockets.list()) != 2 {
		t.Fatalf("%d sockets", len(acme.sockets.list()))
	}
	if acme.listen() || strings.Count(log.String(), "no socket of its own") != 1 {
		t.Errorf("the second time; the log: %s", &log)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	if !acme.listen() || len(acme.sockets.list()) != 3 || acme.listen() {
		t.Errorf("%d sockets once nothing is in the way", len(acme.sockets.list()))
	}
	acme.closeSockets(false)
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("the folder that is to stay: %v, %v", left, err)
	}
	if acme.listen() {
		t.Error("a socket was opened after they were closed")
	}

	again := newTenant(acme.pool, "acme", acme.settings, nil)
	again.listen()
	again.closeSockets(true)
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder that is to go: %v", err)
	}
}

// TestSocketsWithoutAFolder: a tenant without sockets removes nothing that has its name.
func TestSocketsWithoutAFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("acme", 0o755); err != nil {
		t.Fatal(err)
	}
	acme := newIdle(t, &bytes.Buffer{})
	acme.pool.cfg.Dir = ""
	if acme.listen() {
		t.Error("it has a socket")
	}
	acme.closeSockets(true)
	if _, err := os.Stat("acme"); err != nil {
		t.Errorf("another's folder: %v", err)
	}
}

// fake returns a process that is none, and what ends it.
func fake() (p *process, end func()) {
	p = &process{ended: make(chan struct{})}
	return p, func() { close(p.ended) }
}

// TestASlowTenant costs the fleet little: after it was slow some times it is not waited
// for any more.
func TestASlowTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acme := newIdle(t, &bytes.Buffer{})
		p, _ := fake()
		ask := func() (asked bool) {
			acme.ask(p, func(ctx context.Context) error {
				asked = true
				<-ctx.Done()
				return ctx.Err()
			})
			return asked
		}
		quick := func(context.Context) error { return nil }
		for range 2 * slowTimes {
			if !acme.ask(p, quick) {
				t.Fatal("a quick one is refused")
			}
		}
		for i := range slowTimes {
			if !ask() {
				t.Fatalf("it is not waited for the time %d", i+1)
			}
		}
		if ask() {
			t.Error("it is waited for once more")
		}
		if why := p.why.Load(); why == nil || *why != reasonSlow {
			t.Errorf("killed for %v", why)
		}
	})
}

// TestOneThatDiesAsItIsTold died of what killed it, and not of being slow.
func TestOneThatDiesAsItIsTold(t *testing.T) {
	acme := newIdle(t, &bytes.Buffer{})
	p, end := fake()
	if acme.ask(p, func(context.Context) error { end(); return errors.New("the link ended") }) {
		t.Error("it was told")
	}
	if why := p.why.Load(); why != nil {
		t.Errorf("killed for %v", *why)
	}
}

// TestWhoIsBlamed for what.
func TestWhoIsBlamed(t *testing.T) {
	for _, r := range reasons {
		blamed := [2]bool{r.blames(1), r.blames(2)}
		want := [2]bool{true, true}
		switch r {
		case reasonKilled:
			want = [2]bool{true, false}
		case reasonSlow, reasonSettings, reasonFailed:
			want = [2]bool{}
		}
		if blamed != want {
			t.Errorf("%s: %v, want %v", r, blamed, want)
		}
	}
}

// TestRanAtTheEnd: a script ran if it is marked, or a source of it that is retained, or
// that is about to be live.
func TestRanAtTheEnd(t *testing.T) {
	acme := newIdle(t, &bytes.Buffer{})
	version := func(text string) script.Version { return script.Version{Digest: script.DigestOf([]byte(text))} }
	release := func(name string, revision script.Revision, texts ...string) script.Release {
		n, err := script.ParseName(name)
		if err != nil {
			t.Fatal(err)
		}
		r := script.Release{Name: n, Revision: revision}
		for _, text := range texts {
			r.Active = version(text)
			r.Retained = append(r.Retained, r.Active)
		}
		return r
	}
	acme.pool.cfg.Node.Table.Update([]*cache.Release{
		cache.NewRelease(release("acme/a", 1, "a1", "a2")),
		cache.NewRelease(release("acme/b", 2, "b1")),
		cache.NewRelease(release("acme/c", 4, "a2", "a1", "twin")),
		cache.NewRelease(release("acme/d", 5, "twin")),
		cache.NewRelease(release("shop/a", 3, "a1")),
	}, nil)
	next := release("acme/b", 7, "b1", "b2")
	acme.last.Store(&change{put: []script.Object{{Release: &next}}})
	for name, tt := range map[string]struct {
		mark link.Mark
		want string
	}{
		"a script":                 {link.MarkScript(script.Name{Tenant: "acme", Script: "a"}), "acme/a"},
		"the active source":        {link.MarkSource(version("a2").Digest), "acme/a"},
		"a retained source":        {link.MarkSource(version("a1").Digest), "acme/a"},
		"one that is not live yet": {link.MarkSource(version("b2").Digest), "acme/b"},
		"a source of two scripts":  {link.MarkSource(version("twin").Digest), "acme/c"},
		"a test":                   {link.MarkTrial("acme/a"), ""},
		"another tenant's":         {link.MarkScript(script.Name{Tenant: "shop", Script: "a"}), ""},
	} {
		var got []string
		all, trial := acme.ranAtTheEnd(map[link.Mark]bool{tt.mark: true})
		if trial != strings.HasPrefix(name, "a test") {
			t.Errorf("%s: a test ran: %v", name, trial)
		}
		for ran, revision := range all {
			got = append(got, ran.String())
			if ran.Script == "b" && revision != 7 {
				t.Errorf("%s: revision %d", name, revision)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestWhyATestEnded: what ended the process under it was the test if nothing else ran, and
// may have been if something did, but for what the agent ends itself.
func TestWhyATestEnded(t *testing.T) {
	acme := newIdle(t, &bytes.Buffer{})
	candidate := script.Version{Number: 2, Digest: script.DigestOf([]byte("candidate"))}
	acme.pool.cfg.Node.Table.Update([]*cache.Release{cache.NewRelease(script.Release{
		Name: script.Name{Tenant: "acme", Script: "a"}, Revision: 1, Candidate: &script.Candidate{Version: candidate},
	})}, nil)
	test, compiled := link.MarkTrial("acme/a"), link.MarkSource(candidate.Digest)
	of := func(name string) link.Mark { return link.MarkScript(script.Name{Tenant: "acme", Script: name}) }
	for name, tt := range map[string]struct {
		why          reason
		ran          []link.Mark
		ended, alone bool
	}{
		"alone":                   {reasonCrash, []link.Mark{test}, true, true},
		"as it was compiled":      {reasonMemory, []link.Mark{test, compiled}, true, true},
		"before it was there":     {reasonExit, nil, true, true},
		"killed, alone":           {reasonKilled, []link.Mark{test}, true, true},
		"beside a call of it":     {reasonCrash, []link.Mark{test, of("a")}, true, false},
		"beside another's":        {reasonCrash, []link.Mark{test, of("b")}, true, false},
		"beside another's test":   {reasonCrash, []link.Mark{test, link.MarkTrial("acme/b")}, true, false},
		"as another was compiled": {reasonCrash, []link.Mark{test, link.MarkSource(script.Digest{1})}, true, false},
		"ended for settings":      {reasonSettings, []link.Mark{test}, false, false},
		"ended as it was slow":    {reasonSlow, []link.Mark{test}, false, false},
	} {
		p, _ := fake()
		p.end = end{known: make(chan struct{}), why: tt.why, ran: map[link.Mark]bool{}}
		for _, m := range tt.ran {
			p.end.ran[m] = true
		}
		close(p.end.known)
		err := acme.lostTrial(p, "acme/a@2", acme.lost(t.Context(), errors.New("the link ended")))
		if script.KindOf(err) != script.Unavailable || errors.Is(err, ErrEnded) != tt.ended || errors.Is(err, ErrEndedAlone) != tt.alone {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := script.Errorf(script.Timeout, "", "late")
	if p, _ := fake(); !errors.Is(acme.lostTrial(p, "acme/a@2", other), other) {
		t.Error("another error is not what it was")
	}
}

// TestUnreachable: a process whose link has ended is seen, though it beats.
func TestUnreachable(t *testing.T) {
	ours, their, err := link.Stream()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := link.Dial(ours)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	theirs, err := net.FileConn(their)
	if err != nil {
		t.Fatal(err)
	}
	_ = their.Close()
	server := link.NewServer()
	go link.Serve(server, theirs)
	defer server.Stop()
	p := &process{conn: conn}
	conn.Connect()
	wait := func(reachable bool) {
		for state := conn.GetState(); p.reachable() != reachable; state = conn.GetState() {
			if !conn.WaitForStateChange(t.Context(), state) {
				t.Fatal("the test's time ran out")
			}
		}
	}
	wait(true)
	now := time.Unix(1_000_000, 0)
	if d := p.unreachable(now); d != 0 {
		t.Errorf("unreachable for %v", d)
	}
	server.Stop()
	wait(false)
	for _, after := range []time.Duration{0, time.Second, 2 * time.Second} {
		if d := p.unreachable(now.Add(after)); d != after {
			t.Errorf("unreachable for %v, want %v", d, after)
		}
	}
}

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
		if s := acme.state.Load(); !s.held || s.process != p {
			t.Error("its calls do not wait")
		}
		acme.become(nil, nil) // it dies, and the next one starts from the changes
		for s := acme.state.Load(); s.held; s = acme.state.Load() {
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
			if s.process == p && !s.held {
				t.Errorf("%s: calls go on before it has the change", name)
			}
			for ; s.held; s = acme.state.Load() {
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
				if s := slow.state.Load(); !s.held {
					t.Errorf("after change %d calls of %s do not wait", i+1, name)
				}
			}
		}
		for _, slow := range all {
			for s := slow.state.Load(); s.held; s = slow.state.Load() {
				<-s.changed
			}
		}
	})
}

// ready returns a process that is none, and takes what it is told.
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

// TestNothingOlderIsToldLater: a process that starts while changes wait to be told gets what
// is live and the change that is not, and none of those before.
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
		{"none is told", []step{{1, false, true}, {2, false, true}}, "2 2"},
		{"the last is not live", []step{{1, false, true}, {2, false, false}}, "1 2"},
		{"the first was told", []step{{1, true, true}, {2, false, true}}, "2 2"},
		{"the last was told, and is not live", []step{{1, true, true}, {2, true, false}}, "1 2"},
		{"removed and published again", []step{{1, true, true}, {0, true, true}, {3, false, true}}, "3 3"},
		{"removed", []step{{1, false, true}, {0, false, false}}, "1 gone"},
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
			t.Errorf("%s: it is told %s, want %s", tt.name, got, tt.want)
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
		t.Run(fmt.Sprintf("after a death, and was told to no process: %v", told), func(t *testing.T) {
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
	ours, theirs, err := link.Stream()
	if err != nil {
		t.Fatal(err)
	}
	if p.conn, err = link.Dial(ours); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(p.conn.Close(), ours.Close(), theirs.Close()) }()
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
