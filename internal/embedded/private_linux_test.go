package embedded_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/embedded"
)

// TestEtcdIsPrivate: no other user can reach what a server on a Unix socket listens on, also
// if it continues with the data of one that was on loopback.
func TestEtcdIsPrivate(t *testing.T) {
	t.Chdir(t.TempDir())
	fresh, err := embedded.StartEtcd(t.Context(), embedded.EtcdConfig{Dir: "fresh", Private: true})
	if err != nil {
		t.Fatal(err)
	}
	fresh.Stop()
	for _, dir := range []string{"etcd", filepath.Join(t.TempDir(), "etcd")} {
		onLoopback := startEtcd(t, dir)
		if len(listening(t)) == 0 {
			t.Error("the test does not see what listens on loopback")
		}
		if _, err := dialEtcd(t, onLoopback).Put(t.Context(), "k", "v"); err != nil {
			t.Fatal(err)
		}
		onLoopback.Stop()
		e, err := embedded.StartEtcd(t.Context(), embedded.EtcdConfig{Dir: dir, Private: true})
		if err != nil {
			t.Fatal(err)
		}
		got, err := dialEtcd(t, e).Get(t.Context(), "k")
		if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "v" {
			t.Errorf("at %s: got %v, %v", e.Endpoint(), got, err)
		}
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the folder %s has the mode %v, %v", dir, info.Mode(), err)
		}
		if open := listening(t); len(open) > 0 {
			t.Errorf("this process listens at %v", open)
		}
		e.Stop()
	}
}

// listening returns the TCP addresses at which this process listens.
func listening(t *testing.T) (addresses []string) {
	t.Helper()
	ours := map[string]bool{}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil {
			ours[to] = true
		}
	}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue // a machine without IPv6
		}
		defer f.Close()
		const address, state, inode, listen = 1, 3, 9, "0A"
		for lines := bufio.NewScanner(f); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) > inode && fields[state] == listen && ours["socket:["+fields[inode]+"]"] {
				addresses = append(addresses, fields[address])
			}
		}
	}
	return addresses
}
