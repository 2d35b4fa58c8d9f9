package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	"github.com/scriptorium-dev/scriptorium/proto/grpcguard"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
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
	if !acme.listen() || len(acme.sockets.list()) != len(gateway.Protocols)-1 {
		t.Fatalf("%d sockets", len(acme.sockets.list()))
	}
	if acme.listen() || strings.Count(log.String(), "no socket of its own") != 1 {
		t.Errorf("the second time; the log: %s", &log)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	if !acme.listen() || len(acme.sockets.list()) != len(gateway.Protocols) || acme.listen() {
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

// TestOneThatDiesAsItIsTold died of what killed it, and not of being slow.
func TestOneThatDiesAsItIsTold(t *testing.T) {
	acme := newIdle(t, &bytes.Buffer{})
	p, end := fake()
	if acme.ask(p, func(context.Context) error { end(); return errors.New("the link ended") }) {
		t.Error("ask reports success")
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

// connected returns the agent's end of a link, and what serves the other, with the services.
func connected(t *testing.T, services ...func(*grpcguard.Server)) (*grpc.ClientConn, *grpcguard.Server) {
	t.Helper()
	ours, their, err := link.Stream()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := link.Dial(ours)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := net.FileConn(their)
	if err != nil {
		t.Fatal(err)
	}
	_ = their.Close()
	server := link.NewServer()
	for _, register := range services {
		register(server)
	}
	go link.Serve(server, theirs)
	t.Cleanup(func() {
		server.Stop()
		_ = conn.Close()
	})
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if !conn.WaitForStateChange(t.Context(), state) {
			t.Fatal("the test's time ran out")
		}
	}
	return conn, server
}

// TestUnreachable: a process whose link has ended is seen, though it beats.
func TestUnreachable(t *testing.T) {
	conn, server := connected(t)
	p := &process{conn: conn}
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

// TestConnectionEnds tells the errors of a connection that has ended from what a process answers.
func TestConnectionEnds(t *testing.T) {
	for _, err := range []error{
		grpc.ErrClientConnClosing, //nolint:staticcheck // calls on a closed connection fail with it
		status.Error(codes.Unavailable, "error reading from server: EOF"),
	} {
		if !connectionEnded(err) {
			t.Errorf("the connection of %v has not ended", err)
		}
	}
	for _, err := range []error{
		wire.ToStatus(script.Errorf(script.Unavailable, "tenant", "not yet")),
		status.Error(codes.Unimplemented, "unknown method Try"),
	} {
		if connectionEnded(err) {
			t.Errorf("the connection of %v has ended", err)
		}
	}
}
