package gateway_test

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestGroupFolder: it belongs to the group, and so do the sockets in it, whatever was there before and whatever the
// umask is.
func TestGroupFolder(t *testing.T) {
	needs.Root(t, "gives folders to other groups")
	const gid = 47011
	for name, before := range map[string]func(dir string) error{
		"nothing there":    func(string) error { return nil },
		"the folder above": func(dir string) error { return os.Mkdir(dir, 0o700) },
		"the folder, of another group and open": func(dir string) error {
			if err := os.MkdirAll(filepath.Join(dir, "acme"), 0o755); err != nil {
				return err
			}
			return os.Chmod(filepath.Join(dir, "acme"), 0o777)
		},
	} {
		dir := filepath.Join(t.TempDir(), "tenants")
		if err := before(dir); err != nil {
			t.Fatal(err)
		}
		if err := gateway.GroupFolder(dir, "acme", gid); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		l, err := gateway.Listen(filepath.Join(dir, "acme", "http.sock"))
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]fs.FileMode{
			filepath.Join(dir, "acme"):              fs.ModeDir | fs.ModeSetgid | 0o750,
			filepath.Join(dir, "acme", "http.sock"): fs.ModeSocket | 0o660,
		} {
			info, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Sys().(*syscall.Stat_t).Gid; got != gid || info.Mode() != want {
				t.Errorf("%s: %s is %v of group %d, want %v of %d", name, path, info.Mode(), got, want, gid)
			}
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o011 != 0o011 {
			t.Errorf("%s: nobody passes through %v, %v", name, info.Mode(), err)
		}
		_ = l.Close()
	}
}

// TestGroupFolderIsNotMisled by what another user has put there: whoever reaches a tenant's socket may use the tenant.
func TestGroupFolderIsNotMisled(t *testing.T) {
	needs.Root(t, "makes files of other users")
	for _, tt := range []struct {
		name string
		make func(above, folder, victim string) error
		says string
	}{
		{"a link", func(_, folder, victim string) error { return os.Symlink(victim, folder) }, "no symbolic link"},
		{"a link that leads nowhere", func(_, folder, victim string) error { return os.Symlink(victim+"x", folder) }, "no symbolic link"},
		{"a file", func(_, folder, _ string) error { return os.WriteFile(folder, nil, 0o600) }, "has to be a folder"},
		{"a folder of another user", func(_, folder, _ string) error {
			if err := os.Mkdir(folder, 0o755); err != nil {
				return err
			}
			return os.Chown(folder, 47099, -1)
		}, "belongs to another user"},
		{"a folder above that others write to", func(above, _, _ string) error { return os.Chmod(above, 0o777) }, "can write to"},
		{"a folder above of another user", func(above, _, _ string) error { return os.Chown(above, 47099, -1) }, "can write to"},
		{"a link above", func(above, _, victim string) error {
			if err := os.Remove(above); err != nil {
				return err
			}
			return os.Symlink(victim, above)
		}, "can write to"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			above, victim := filepath.Join(dir, "tenants"), filepath.Join(dir, "victim")
			for _, path := range []string{above, victim} {
				if err := os.Mkdir(path, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := tt.make(above, filepath.Join(above, "acme"), victim); err != nil {
				t.Fatal(err)
			}
			if err := gateway.GroupFolder(above, "acme", 47011); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %q", err, tt.says)
			}
			info, err := os.Lstat(victim)
			if err != nil || info.Mode() != fs.ModeDir|0o700 || info.Sys().(*syscall.Stat_t).Gid != 0 {
				t.Errorf("what is behind the link is %v now, %v", info.Mode(), err)
			}
			if left, _ := os.ReadDir(victim); len(left) > 0 {
				t.Errorf("behind the link there is %v now", left)
			}
		})
	}
}

// TestRemoveDead keeps sockets that are served, other files, and what is behind links.
func TestRemoveDead(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	dead := func(path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		_ = l.Close()
	}
	dead(filepath.Join(dir, "gone", "http.sock"))
	dead(filepath.Join(dir, "kept", "http.sock"))
	dead(filepath.Join(elsewhere, "http.sock"))
	dead(filepath.Join(dir, "gone", "other.sock"))
	if err := os.WriteFile(filepath.Join(dir, "gone", "resp.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := gateway.RemoveDead(dir, func(tenant string) bool { return tenant == "kept" }); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]bool{
		filepath.Join(dir, "gone", "http.sock"): false, filepath.Join(dir, "kept", "http.sock"): true, filepath.Join(elsewhere, "http.sock"): true,
		filepath.Join(dir, "gone", "other.sock"): true, filepath.Join(dir, "gone", "resp.sock"): true,
	} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := gateway.RemoveDead(filepath.Join(dir, "none"), nil); err != nil {
		t.Errorf("no folder: %v", err)
	}
}

// TestRemoveDeadOfAGroup: the folder goes, so that the next one has the group of the folder above. One that another
// agent may have made for an isolated tenant stays: a pod can have mounted it.
func TestRemoveDeadOfAGroup(t *testing.T) {
	needs.Root(t, "gives folders to other groups")
	dir := filepath.Join(t.TempDir(), "tenants")
	for _, tenant := range []string{"gone", "kept"} {
		if err := gateway.GroupFolder(dir, tenant, 47011); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "isolated"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := gateway.RemoveDead(dir, func(tenant string) bool { return tenant == "kept" }); err != nil {
		t.Error(err)
	}
	for tenant, want := range map[string]bool{"gone": false, "kept": true, "isolated": true} {
		if _, err := os.Lstat(filepath.Join(dir, tenant)); (err == nil) != want {
			t.Errorf("%s: %v", tenant, err)
		}
	}
}

// TestOneTenant: a connection to a tenant's socket may use this tenant alone, whatever the rules say, also if it is one
// too many.
func TestOneTenant(t *testing.T) {
	for _, rules := range [][]string{{gateway.Everybody}, {"uid:47099=*"}, gateway.OwnRules()} {
		access, err := gateway.ParseAccess(rules)
		if err != nil {
			t.Fatal(err)
		}
		inner, err := gateway.Listen(filepath.Join(t.TempDir(), "a.sock"))
		if err != nil {
			t.Fatal(err)
		}
		conns := budget.NewConnections(1, 1000)
		l := gateway.Entry{Access: access, Connections: conns, Bytes: 10, Spare: gateway.NewLatest(2)}.Listen(gateway.OneTenant(inner, "acme"))
		defer l.Close()
		for _, spare := range []bool{false, true} {
			client, err := net.Dial("unix", inner.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			grant := access.GrantOf(conn)
			if !grant.Allows("acme") || grant.Allows("shop") || grant.Check("shop/x") == nil || grant.None() {
				t.Errorf("%q: the grant is %+v", rules, grant)
			}
			if !strings.HasPrefix(grant.Caller(), "uid ") || gateway.IsSpare(conn) != spare {
				t.Errorf("%q: %s, spare: %t", rules, grant.Caller(), gateway.IsSpare(conn))
			}
		}
	}
}
