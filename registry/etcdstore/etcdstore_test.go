package etcdstore_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/embedded/etcdtest"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/etcdstore"
	"github.com/scriptorium-dev/scriptorium/registry/storetest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// etcd is shared by all tests, each under a prefix of its own.
var etcd *embedded.Etcd

func TestMain(m *testing.M) {
	os.Exit(etcdtest.Run(m, func(e *embedded.Etcd) { etcd = e }))
}

func open(t *testing.T, prefix string) *etcdstore.Store {
	t.Helper()
	s := unfounded(t, etcdstore.Config{Prefix: prefix})
	etcdtest.Found(t, s)
	return s
}

func unfounded(t *testing.T, cfg etcdstore.Config) *etcdstore.Store {
	t.Helper()
	cfg.Endpoints = []string{etcd.Endpoint()}
	s, err := etcdstore.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func client(t *testing.T) *clientv3.Client {
	t.Helper()
	return etcdtest.Client(t, etcd.Endpoint())
}

func TestStore(t *testing.T) {
	prefixes := map[registry.Store]string{}
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) registry.Store {
			t.Helper()
			prefix := "/" + rand.Text()
			s := open(t, prefix)
			prefixes[s] = prefix
			return s
		},
		Reopen: func(t *testing.T, s registry.Store) registry.Store {
			t.Helper()
			s.(*etcdstore.Store).Close()
			return open(t, prefixes[s])
		},
		Compact: func(t *testing.T, _ registry.Store, upTo script.Revision) {
			t.Helper()
			if _, err := client(t).Compact(t.Context(), int64(upTo)); err != nil {
				t.Fatal(err)
			}
		},
		Spoil: func(t *testing.T, s registry.Store, key, record string, forgets bool) {
			t.Helper()
			c := client(t)
			put, err := c.Put(t.Context(), prefixes[s]+"/"+key, record)
			if err == nil && forgets {
				_, err = c.Compact(t.Context(), put.Header.Revision)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		Lose: func(t *testing.T, s registry.Store, key string) {
			t.Helper()
			if _, err := client(t).Delete(t.Context(), prefixes[s]+"/"+key); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// TestSurvivesEtcdRestart: what was committed is there after etcd was stopped and
// started again, with its revision.
func TestSurvivesEtcdRestart(t *testing.T) {
	dir := t.TempDir()
	start := func() (*embedded.Etcd, *etcdstore.Store) {
		e, err := embedded.StartEtcd(t.Context(), embedded.EtcdConfig{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Stop)
		s, err := etcdstore.Open(etcdstore.Config{Endpoints: []string{e.Endpoint()}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return e, s
	}
	e, s := start()
	etcdtest.Found(t, s)
	name := script.Name{Tenant: "acme", Script: "route"}
	source := []byte("return 1")
	v := script.Version{Number: 1, Digest: script.DigestOf(source), Engine: "lua", Size: len(source)}
	revision, err := s.Commit(t.Context(), registry.Commit{
		Release: script.Release{Name: name, Active: v, Latest: 1, Retained: []script.Version{v}},
		Publish: &v, Source: source,
	})
	if err != nil {
		t.Fatal(err)
	}
	e.Stop()
	_, s = start()
	r, err := s.Release(t.Context(), name)
	if err != nil || r.Revision != revision {
		t.Errorf("after the restart: %+v, %v; want revision %d", r, err, revision)
	}
}

// TestUnreachable: every operation ends in time with an error that says where
// etcd should be.
func TestUnreachable(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent := ln.Addr().String() // accepts and never answers
	defer ln.Close()

	for name, endpoint := range map[string]string{"silent": silent, "refused": porttest.Address(t)} {
		t.Run(name, func(t *testing.T) {
			s, err := etcdstore.Open(etcdstore.Config{Endpoints: []string{"http://" + endpoint}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			route := script.Name{Tenant: "acme", Script: "route"}
			for what, op := range map[string]func(ctx context.Context) error{
				"Fleet":    func(ctx context.Context) error { _, err := s.Fleet(ctx); return err },
				"Head":     func(ctx context.Context) error { _, err := s.Head(ctx); return err },
				"Release":  func(ctx context.Context) error { _, err := s.Release(ctx, route); return err },
				"Releases": func(ctx context.Context) error { _, _, err := s.Releases(ctx, "", script.Name{}, 1); return err },
				"Source":   func(ctx context.Context) error { _, err := s.Source(ctx, script.Digest{1}); return err },
				"Sources":  func(ctx context.Context) error { _, err := s.Sources(ctx, make([]script.Digest, 1)); return err },
				"Snapshot": func(ctx context.Context) error { _, err := s.Snapshot(ctx); return err },
				"Commit": func(ctx context.Context) error {
					_, err := s.Commit(ctx, registry.Commit{Release: script.Release{Name: route}})
					return err
				},
			} {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				err := op(ctx)
				cancel()
				if script.KindOf(err) != script.Unavailable || !strings.Contains(fmt.Sprint(err), endpoint) {
					t.Errorf("%s: %v; want Unavailable, naming %s", what, err, endpoint)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := s.Head(ctx); err == nil {
				t.Error("Head with a context that is done: no error")
			}
		})
	}
}

// TestCorrupt: what cannot be read names its key, and nothing panics.
func TestCorrupt(t *testing.T) {
	prefix := "/" + rand.Text()
	s, c := open(t, prefix), client(t)
	for _, value := range []string{"\xff\xff\xff", "", "\x0a\x01A"} {
		if _, err := c.Put(t.Context(), prefix+"/releases/acme/route", value); err != nil {
			t.Fatal(err)
		}
		_, err := s.Release(t.Context(), script.Name{Tenant: "acme", Script: "route"})
		if script.KindOf(err) != script.Internal || !strings.Contains(err.Error(), " releases/acme/route ") {
			t.Errorf("%q: %v; want Internal, naming the key", value, err)
		}
	}
}

// TestHistoryIsTrimmed: a script that changes for ever does not fill etcd.
func TestHistoryIsTrimmed(t *testing.T) {
	prefix := "/" + rand.Text()
	s, c := open(t, prefix), client(t)
	cur := script.Release{Name: script.Name{Tenant: "acme", Script: "route"}, Deleted: true}
	for range registry.MaxHistory + 100 {
		revision, err := s.Commit(t.Context(), registry.Commit{Guard: cur.Revision, Release: cur, Entry: script.HistoryEntry{Change: script.ChangeDelete}})
		if err != nil {
			t.Fatal(err)
		}
		cur.Revision = revision
	}
	resp, err := c.Get(t.Context(), prefix+"/history/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || resp.Count < registry.MaxHistory || resp.Count > registry.MaxHistory+20 {
		t.Errorf("%d lines of history are kept, %v; want about %d", resp.Count, err, registry.MaxHistory)
	}
}

// TestIdleAcrossCompaction: a registry in which nothing changes can be watched
// although etcd went on, and compacted the last change.
func TestIdleAcrossCompaction(t *testing.T) {
	for _, committed := range []bool{false, true} {
		t.Run(fmt.Sprint("committed=", committed), func(t *testing.T) {
			for !watchIdle(t, committed) {
				continue
			}
		})
	}
}

// watchIdle reports whether the watch was open in time for the commit that it is
// to see; nothing can be said otherwise.
func watchIdle(t *testing.T, committed bool) bool {
	t.Helper()
	s, c := open(t, "/"+rand.Text()), client(t)
	commit := func(name string) script.Revision {
		r := script.Release{Name: script.Name{Tenant: "acme", Script: name}, Deleted: true}
		revision, err := s.Commit(t.Context(), registry.Commit{Release: r})
		if err != nil {
			t.Fatal(err)
		}
		return revision
	}
	var head script.Revision
	if committed {
		head = commit("before")
	}
	put, err := c.Put(t.Context(), "/elsewhere", "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Compact(t.Context(), put.Header.Revision); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen, ended := make(chan script.Revision, 1), make(chan error, 1)
	go func() {
		for tx, err := range s.Watch(ctx, head) {
			if err != nil {
				ended <- err
				return
			}
			seen <- tx.Revision
		}
	}()
	select {
	case err := <-ended:
		t.Fatalf("an idle watch ended: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	want := commit("after")
	select {
	case <-ended:
		return false
	case got := <-seen:
		if got != want {
			t.Errorf("revision %d, want %d", got, want)
		}
	}
	return true
}

// A watch brings the small content of a value with its commit, too.
func TestSmallContentsAreTold(t *testing.T) {
	s := open(t, "/"+rand.Text())
	r := registry.New(registry.Config{Store: s})
	key := script.ValueKey{Tenant: "acme", Key: "flag"}
	put, _, err := r.PutValue(t.Context(), registry.PutValue{Key: key, Content: []byte("on"), Author: "ann", By: access.Everybody("unix")})
	if err != nil {
		t.Fatal(err)
	}
	for tx, err := range s.Watch(t.Context(), put.Revision-1) {
		if err != nil {
			t.Fatal(err)
		}
		if len(tx.Sources) != 1 || string(tx.Sources[0].Content) != "on" || tx.Sources[0].Digest != tx.Values[0].Digest {
			t.Errorf("it came with %q", tx.Sources)
		}
		break
	}
}

// So is the source of a version that runs again after a rollback, and that of an import.
func TestSourcesThatRunAgainAreTold(t *testing.T) {
	s := open(t, "/"+rand.Text())
	r := registry.New(registry.Config{Store: s, Engines: map[string]engine.Checker{"lua": anything{}}})
	w := registry.Write{Name: script.Name{Tenant: "acme", Script: "s"}, Author: "ann", By: access.Everybody("unix")}
	var last script.Revision
	for _, source := range []string{"one", "two"} {
		result, err := r.Publish(t.Context(), registry.PublishRequest{Write: w, Source: []byte(source)})
		if err != nil {
			t.Fatal(err)
		}
		last = result.Release.Revision
	}
	if _, err := r.Rollback(t.Context(), registry.RollbackRequest{Write: w}); err != nil {
		t.Fatal(err)
	}
	for tx, err := range s.Watch(t.Context(), last) {
		if err != nil {
			t.Fatal(err)
		}
		if len(tx.Sources) != 1 || string(tx.Sources[0].Content) != "one" {
			t.Errorf("the rollback came with %q", tx.Sources)
		}
		break
	}
}

// A watch brings a small source with its commit, so that no replica has to read it.
func TestSmallSourcesAreTold(t *testing.T) {
	s := open(t, "/"+rand.Text())
	r := registry.New(registry.Config{Store: s, Engines: map[string]engine.Checker{"lua": anything{}}})
	const small = registry.InlineSourceBytes
	sources := []string{"small", strings.Repeat("x", small+1), "small", "last", "candidate"} // one comes again
	var first script.Revision
	for i, source := range sources {
		// The last is a candidate of the script before.
		name := script.Name{Tenant: "acme", Script: fmt.Sprint("s", min(i, len(sources)-2))}
		settings := &script.Settings{Spec: script.Spec{Limits: script.Limits{SourceBytes: 1 << 20}}, Rollout: script.Plan{Steps: []script.Step{{Percent: 10}}}}
		result, err := r.Publish(t.Context(), registry.PublishRequest{
			Write: registry.Write{Name: name, Author: "ann", By: access.Everybody("unix")}, Source: []byte(source), Settings: settings,
		})
		if err != nil {
			t.Fatal(err)
		}
		first = cmp.Or(first, result.Release.Revision)
	}
	for tx, err := range s.Watch(t.Context(), first-1) {
		if err != nil {
			t.Fatal(err)
		}
		var came []string
		for _, source := range tx.Sources {
			wanted := tx.Releases[0].Active
			if c := tx.Releases[0].Candidate; c != nil {
				wanted = c.Version
			}
			if source.Digest != wanted.Digest {
				t.Errorf("transaction %d came with %v, which is not its own", tx.Revision, source.Digest)
			}
			came = append(came, string(source.Content))
		}
		want := sources[:1]
		if len(want[0]) > small {
			want = nil
		}
		if !slices.Equal(came, want) {
			t.Errorf("transaction %d came with %q, want %q", tx.Revision, came, want)
		}
		if sources = sources[1:]; len(sources) == 0 {
			break
		}
	}
}

// TestRemainsWithABrokenLine: the history says when the last change was, unless its newest line
// cannot be read.
func TestRemainsWithABrokenLine(t *testing.T) {
	prefix := "/" + rand.Text()
	s, c := open(t, prefix), client(t)
	change := requested("route")
	if _, err := s.Commit(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	spoil := func(key, record string) registry.Unreadable {
		t.Helper()
		put, err := c.Put(t.Context(), prefix+"/"+key, record)
		if err != nil {
			t.Fatal(err)
		}
		return registry.Unreadable{Key: key, Revision: script.Revision(put.Header.Revision)}
	}
	broken := spoil("releases/acme/route", "garbage")
	remains, err := s.Remains(t.Context(), broken)
	if err != nil || len(remains.History) != 1 || !remains.Current {
		t.Errorf("%+v, %v", remains, err)
	}
	for _, record := range []string{"garbage", ""} {
		spoil(fmt.Sprintf("history/acme/route/%020d", 1), record)
		remains, err = s.Remains(t.Context(), broken)
		if err != nil || len(remains.History) != 1 || remains.Current {
			t.Errorf("with a newer line that is %q: %+v, %v", record, remains, err)
		}
	}
}

// TestObserve: each request is told, and whether etcd answered.
func TestObserve(t *testing.T) {
	for name, endpoint := range map[string]string{"ok": etcd.Endpoint(), "failed": "http://127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			type seen struct {
				method string
				failed bool
			}
			requests := make(chan seen, 100)
			store, err := etcdstore.Open(etcdstore.Config{
				Endpoints: []string{endpoint}, Prefix: "/" + rand.Text(),
				Observe: func(method string, took time.Duration, failed bool) {
					if took < 0 {
						t.Errorf("it took %v", took)
					}
					requests <- seen{method, failed}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			_, err = store.Head(t.Context())
			if want := (seen{"/etcdserverpb.KV/Range", err != nil}); <-requests != want || want.failed != (name == "failed") {
				t.Errorf("want %+v; Head returns %v", want, err)
			}
		})
	}
}
