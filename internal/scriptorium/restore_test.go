package scriptorium_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/embedded/etcdtest"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// snapshot saves one of etcd.
func (e *etcdProcess) snapshot() (file string) {
	e.t.Helper()
	file = filepath.Join(e.t.TempDir(), "backup.db")
	data, err := etcdtest.Client(e.t, e.endpoint).Snapshot(e.t.Context())
	if err != nil {
		e.t.Fatal(err)
	}
	defer data.Close()
	all, err := io.ReadAll(data)
	if err != nil {
		e.t.Fatal(err)
	}
	if err := os.WriteFile(file, all, 0o600); err != nil {
		e.t.Fatal(err)
	}
	return file
}

// restore ends etcd and starts it with the snapshot, as docs/operating.md says. Its revisions are beyond all that
// agents have seen.
func (e *etcdProcess) restore(file, bump string) {
	e.t.Helper()
	e.Stop()
	e.dir = filepath.Join(e.t.TempDir(), "restored")
	out, err := exec.CommandContext(e.t.Context(), needs.Program(e.t, "etcdutl"), "snapshot", "restore", file, "--data-dir", e.dir,
		"--bump-revision", bump, "--mark-compacted", "--name", "m", "--initial-cluster", "m="+e.peer, "--initial-advertise-peer-urls", e.peer).CombinedOutput()
	if err != nil {
		e.t.Fatalf("etcdutl: %v\n%s", err, out)
	}
	e.start()
}

// TestARestoreInAFreeze: etcd is restored below registries and agents that go on. The freeze is as it was in the
// snapshot, or there is none, whatever it was since.
func TestARestoreInAFreeze(t *testing.T) {
	needs.Time(t, "starts six processes")
	needs.NoRace(t)
	t.Parallel()
	etcd := newEtcdProcess(t)
	c := startAgentsOn(startMistakenOn(t, etcd), 2, "")
	c.plan("route", 1, nil)
	c.live("route", 1)
	thawed := etcd.snapshot()
	c.freeze("acme/free")
	c.plan("route", 2, nil)
	c.is("route", "waits for the thaw", (*script.Release).Frozen)
	frozen := etcd.snapshot()
	c.thaw()
	c.live("route", 2)
	c.everywhere("route", "2")

	etcd.restore(frozen, "1000000000")
	await(t, "the registry has the freeze of the snapshot", func() bool {
		f, err := c.client.Frozen(t.Context())
		return err == nil && f != nil && f.Author == "ann" && f.Note == "incident 12" && len(f.Except) == 1
	})
	c.is("route", "waits for the thaw", func(r *script.Release) bool { return r.Frozen() && r.Active.Number == 1 })
	c.plan("free", 1, nil) // the first write
	c.live("free", 1)
	c.everywhere("route", "1")
	c.plan("route", 3, nil)
	c.is("route", "waits for the thaw", func(r *script.Release) bool { return r.Frozen() && r.Active.Number == 1 })

	etcd.restore(thawed, "2000000000")
	await(t, "there is no freeze", func() bool {
		f, err := c.client.Frozen(t.Context())
		return err == nil && f == nil
	})
	c.plan("route", 4, nil)
	c.live("route", 2) // the snapshot has one version
	c.everywhere("route", "4")
}
