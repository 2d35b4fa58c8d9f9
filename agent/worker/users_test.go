package worker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/worker"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestParseUsers(t *testing.T) {
	for _, text := range []string{"200000-265535", "7-7", worker.DefaultUsers.String()} {
		if got, err := worker.ParseUsers(text); err != nil || got.String() != text {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-", "1", "1-", "-1", "2-1", "1-2-3", "a-b", "1-4294967296", "0-1", "1-65534", "65534-65534", "4294967295-4294967295"} {
		if got, err := worker.ParseUsers(text); script.KindOf(err) != script.Invalid {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestUsersAreFree(t *testing.T) {
	dir := t.TempDir()
	passwd, group := filepath.Join(dir, "passwd"), filepath.Join(dir, "group")
	for path, text := range map[string]string{
		passwd: "root:x:0:0:root:/root:/bin/sh\n\nbroken\nbob:x:1000:2000::/home/bob:/bin/sh\n",
		group:  "root:x:0:\nbobs:x:2000:bob\nwww:x:3000:bob,root\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for text, who := range map[string]string{
		"1-999": "", "1001-1999": "", "2001-2999": "", "900-1100": "1000, which is bob", "1900-2100": "2000, which is bob", "3000-3000": "3000, which is www",
	} {
		users, err := worker.ParseUsers(text)
		if err != nil {
			t.Fatal(err)
		}
		err = users.CheckFree(passwd, group)
		if who == "" && err != nil || who != "" && (script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), who)) {
			t.Errorf("%s: %v, want %q", text, err, who)
		}
	}
	if err := worker.DefaultUsers.CheckFree(filepath.Join(dir, "none"), filepath.Join(dir, "none")); err != nil {
		t.Error(err)
	}
}
