package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/embedded/etcdtest"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/etcdstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

// member is a process of etcd, which can be killed and started again.
type member struct {
	t        *testing.T
	path     string
	dir      string
	endpoint string
	peer     string
	cmd      *exec.Cmd
}

func newMember(t *testing.T) *member {
	t.Helper()
	m := &member{
		t: t, path: needs.Program(t, "etcd"), dir: filepath.Join(t.TempDir(), "etcd"),
		endpoint: "http://" + porttest.Address(t), peer: "http://" + porttest.Address(t),
	}
	m.start()
	t.Cleanup(m.kill)
	return m
}

// start starts the process with etcd's own limits of transactions and requests.
func (m *member) start() {
	m.t.Helper()
	m.cmd = exec.CommandContext(context.Background(), m.path, "--name", "m", "--data-dir", m.dir, "--log-level", "error",
		"--listen-client-urls", m.endpoint, "--advertise-client-urls", m.endpoint, "--listen-peer-urls", m.peer,
		"--initial-advertise-peer-urls", m.peer, "--initial-cluster", "m="+m.peer, "--heartbeat-interval", "20", "--election-timeout", "200")
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
}

// kill ends the process as kill -9 does, and waits for its end.
func (m *member) kill() {
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
}

// cutter cuts the connection of a client once it has written so many bytes.
type cutter struct {
	left   atomic.Int64 // until then; negative: nothing happens
	answer atomic.Bool  // cut it at the next answer after that instead
	do     atomic.Pointer[func()]
}

// arm has the cutter do something after n bytes, or at the answer that follows, and cut the connection.
func (c *cutter) arm(n int64, answer bool, do func()) {
	c.do.Store(&do)
	c.answer.Store(answer)
	c.left.Store(n)
}

func (c *cutter) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(address, "http://"))
	return &cutConn{Conn: conn, c: c}, err
}

type cutConn struct {
	net.Conn
	c *cutter
}

func (w *cutConn) Write(p []byte) (int, error) {
	before := w.c.left.Add(-int64(len(p))) + int64(len(p))
	if w.c.answer.Load() || before <= 0 || before > int64(len(p)) {
		return w.Conn.Write(p)
	}
	n, err := w.Conn.Write(p[:before])
	(*w.c.do.Load())()
	return n, errors.Join(err, w.Close(), net.ErrClosed)
}

func (w *cutConn) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if w.c.left.Load() <= 0 && w.c.answer.CompareAndSwap(true, false) {
		(*w.c.do.Load())()
		return 0, errors.Join(w.Close(), net.ErrClosed)
	}
	return n, err
}

// TestTogetherIsWholeAfterAKill: etcd is killed, or the client cut off, in the midst of a transaction
// of several changes. Then all of it is there or nothing, and what was acknowledged is there.
func TestTogetherIsWholeAfterAKill(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	etcd, cut := newMember(t), &cutter{}
	config := etcdstore.Config{Endpoints: []string{etcd.endpoint}}
	s, err := etcdstore.Open(config.WithDialer(cut.dial))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	eventually(t, func() error { _, _, err := s.Found(t.Context(), ""); return err })
	etcdtest.Found(t, s)

	var head script.Revision
	var done, lost, unknown int
	cut.arm(1<<40, false, func() {})
	size := int64(0)
	for round := range rounds {
		c := together(t, s, round)
		before := cut.left.Load()
		if round > 0 {
			do := func() {}
			if round%2 == 0 {
				do = func() { _ = etcd.cmd.Process.Kill() }
			}
			switch round % 3 {
			case 0: // while it is sent
				cut.arm(1+random.Int64N(size), false, do)
			case 1: // about when etcd has all of it: it may apply it
				cut.arm(size-200+random.Int64N(400), false, do)
			case 2: // when etcd answers
				cut.arm(size-200, true, do)
			}
		}
		_, err := s.CommitTogether(t.Context(), c)
		if round == 0 {
			size = before - cut.left.Load()
		}
		etcd.kill()
		cut.arm(0, false, func() {})
		etcd.start()
		now := wantWhole(t, s, c)
		switch {
		case err == nil && now == head:
			t.Errorf("round %d was acknowledged, and is not there", round)
		case err == nil:
			done++
		case script.KindOf(err) != script.Unavailable:
			t.Errorf("round %d: %v, want Unavailable", round, err)
		case now == head:
			lost++
		default:
			unknown++
		}
		head = now
	}
	t.Logf("of %d transactions of %d bytes, %d were acknowledged; %d others are there, and %d are not", rounds, size, done, unknown, lost)
	if lost == 0 {
		t.Error("none came to nothing: this proves nothing")
	}
}

// eventually repeats what needs etcd until it works. The store waits between attempts to connect.
func eventually(t *testing.T, do func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := do()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// together returns a transaction of scripts, values and a record, with contents that no other round has.
func together(t *testing.T, s *etcdstore.Store, round int) (c registry.Together) {
	t.Helper()
	for i := range 4 {
		name := script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}
		var cur script.Release
		if round > 0 {
			eventually(t, func() (err error) {
				cur, err = s.Release(t.Context(), name)
				if script.KindOf(err) == script.NotFound {
					err = nil
				}
				return err
			})
		}
		source := fmt.Appendf(nil, "source %d of round %d %s", i, round, strings.Repeat("s", 20<<10))
		v := script.Version{Number: cur.Latest + 1, Digest: script.DigestOf(source), Engine: "lua", Size: len(source)}
		c.Releases = append(c.Releases, registry.Commit{
			Guard: cur.Revision, Release: script.Release{Name: name, Active: v, Latest: v.Number, Retained: []script.Version{v}}, Publish: &v, Source: source,
			Entry: script.HistoryEntry{Change: script.ChangePublish, Version: v.Number},
		})
	}
	var usage *registry.Usage
	for i := range 4 {
		key := script.ValueKey{Tenant: "acme", Key: fmt.Sprint("key-", i)}
		content := fmt.Appendf(nil, "content %d of round %d", i, round)
		data, err := s.DataUsage(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if usage == nil {
			usage = &data.Usage
		}
		c.Values = append(c.Values, registry.ValueCommit{
			Guard: data.Value.Revision, Value: script.Value{Key: key, Digest: script.DigestOf(content), Size: len(content)}, Content: content, Usage: *usage,
		})
	}
	set, err := s.ChangeSet(t.Context(), "acme", "cart")
	if err != nil && script.KindOf(err) != script.NotFound {
		t.Fatal(err)
	}
	c.Set, c.SetGuard = &script.ChangeSet{Tenant: "acme", Name: "cart", Attempt: uint64(round), State: script.ChangeSetLive}, set.Revision
	return c
}

// wantWhole checks that all, or nothing, of the transaction is there, and returns the head.
func wantWhole(t *testing.T, s *etcdstore.Store, c registry.Together) (head script.Revision) {
	t.Helper()
	eventually(t, func() (err error) { head, err = s.Head(t.Context()); return err })
	there := map[string]bool{}
	for _, commit := range c.Releases {
		name := commit.Release.Name
		r, err := s.Release(t.Context(), name)
		there[name.String()] = err == nil && r.Revision == head && r.Active.Digest == commit.Publish.Digest
		_, err = s.Version(t.Context(), name, commit.Publish.Number)
		there["the version of "+name.String()] = err == nil
		_, err = s.Source(t.Context(), commit.Publish.Digest)
		there["the source of "+name.String()] = err == nil
	}
	for _, commit := range c.Values {
		data, err := s.DataUsage(t.Context(), commit.Value.Key)
		there[commit.Value.Key.String()] = err == nil && data.Value.Revision == head && data.Value.Digest == commit.Value.Digest
		_, err = s.Source(t.Context(), commit.Value.Digest)
		there["the content of "+commit.Value.Key.String()] = err == nil
	}
	set, err := s.ChangeSet(t.Context(), "acme", "cart")
	there["the record"] = err == nil && set.Revision == head && set.Attempt == c.Set.Attempt
	whole := there["the record"]
	for what, is := range there {
		if is != whole {
			t.Errorf("%s: %v, and the record: %v; want all or nothing", what, is, whole)
		}
	}
	return head
}
