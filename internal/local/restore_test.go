package local_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/embedded/etcdtest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// bump makes the data of an etcd that does not run what `etcdutl snapshot restore` with
// --bump-revision and --mark-compacted makes of them.
func bump(t *testing.T, dir string, above script.Revision) {
	t.Helper()
	e, err := embedded.StartEtcd(t.Context(), embedded.EtcdConfig{Dir: dir, Private: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Stop()
	c := etcdtest.Client(t, e.Endpoint())
	for at := script.Revision(0); at <= above; {
		put, err := c.Put(t.Context(), "bump", "")
		if err != nil {
			t.Fatal(err)
		}
		if at = script.Revision(put.Header.Revision); at > above {
			if _, err := c.Compact(t.Context(), put.Header.Revision); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestRestore: etcd is restored from a backup, as docs/operating.md says, below a registry and
// agents that go on running. The freeze is as it was then.
func TestRestore(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	put := func(of script.Name, n int) script.Name {
		t.Helper()
		if _, err := s.registry.Publish(ctx, registryclient.PublishRequest{Name: of, Source: edition(n), Write: registryclient.Write{Author: "test"}}); err != nil {
			t.Fatal(err)
		}
		return of
	}
	answers := func(of script.Name, kind script.Kind) {
		t.Helper()
		for i, client := range s.agents {
			var got error
			if !eventually(ctx, func() bool {
				_, got = client.Call(ctx, of.String())
				return script.KindOf(got) == kind
			}) {
				t.Errorf("agent-%d answers %s with %v, want %q", i+1, of, got, kind)
			}
		}
	}
	deleted := put(script.Name{Tenant: "shop", Script: "deleted"}, 1)
	s.converge(s.publish(1).Release.Revision)
	if _, err := s.registry.Freeze(ctx, 0, []string{"acme", "shop"}, "ann", "as in the backup"); err != nil {
		t.Fatal(err)
	}
	data, backup := filepath.Join(s.dir, "etcd"), filepath.Join(s.dir, "backup")
	s.StopEtcd()
	if err := os.CopyFS(backup, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	if err := s.StartEtcd(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.registry.Thaw(ctx, "ann", ""); err != nil {
		t.Fatal(err)
	}
	lost := put(script.Name{Tenant: "shop", Script: "lost"}, 1)
	if _, err := s.registry.Delete(ctx, deleted, registryclient.Write{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	last := s.publish(2).Release.Revision
	s.converge(last)
	answers(lost, "")
	answers(deleted, script.NotFound)

	if err := s.StopAgent(ctx, 1); err != nil {
		t.Fatal(err)
	}
	s.StopEtcd()
	bump(t, backup, last+100)
	if err := os.Rename(data, filepath.Join(s.dir, "away")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(backup, data); err != nil {
		t.Fatal(err)
	}
	if err := s.StartEtcd(ctx); err != nil {
		t.Fatal(err)
	}
	if !eventually(ctx, func() bool {
		_, _, err := s.registry.PutValue(ctx, script.ValueKey{Tenant: name.Tenant, Key: "restored"}, []byte("true"), registryclient.DataWrite{Author: "test"})
		return err == nil
	}) {
		t.Fatal("nothing can be written")
	}
	if err := s.StartAgent(1); err != nil {
		t.Fatal(err)
	}
	for i := range s.agents {
		s.awaitAnswer(i, answer(1))
	}
	if freeze, err := s.registry.Frozen(ctx); err != nil || freeze == nil || freeze.Note != "as in the backup" {
		t.Errorf("the freeze is %+v, %v, want that of the backup", freeze, err)
	}
	answers(lost, script.NotFound)
	answers(deleted, "")
	s.agentsKnown(agents)
	s.converge(s.publish(3).Release.Revision)
	s.answers(answer(3))
}
