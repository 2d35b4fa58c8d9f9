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
	for name, text := range map[string]string{
		"passwd": "root:x:0:0:root:/root:/bin/sh\n\nbroken\nbob:x:1000:2000::/home/bob:/bin/sh\n",
		"group":  "root:x:0:\nall:x:1500:" + strings.Repeat("somebody,", 10_000) + "\nbobs:x:2000:bob\nwww:x:3000:bob,root\n",
		"subuid": "# of podman\n\nbob:100000:65536\nbroken:5000\n1000:300000:1\nann:400000:0\nfar:4294967000:9223372036854775807\n",
		"subgid": "bob:500000:10",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for text, who := range map[string]string{
		"1-999": "", "1001-1499": "", "2001-2999": "",
		"900-1100":              "1000, which is the id of bob in line 4 of " + dir + "/passwd",
		"1900-2000":             "2000, which is the id of bob",
		"3000-3000":             "3000, which is the id of www in line 4 of " + dir + "/group",
		"66000-99999":           "",
		"99999-100000":          "100000, which is a subordinate id of bob in line 3 of " + dir + "/subuid",
		"165535-200000":         "165535, which is a subordinate id of bob",
		"120000-120001":         "120000, which is a subordinate id of bob",
		"90000-200000":          "100000, which is a subordinate id of bob",
		"165536-299999":         "",
		"200000-300000":         "300000, which is a subordinate id of 1000 in line 5 of " + dir + "/subuid",
		"300001-499999":         "",
		"500009-500100":         "500009, which is a subordinate id of bob in line 1 of " + dir + "/subgid",
		"500010-600000":         "",
		"4294966000-4294967294": "4294967000, which is a subordinate id of far",
	} {
		users, err := worker.ParseUsers(text)
		if err != nil {
			t.Fatal(err)
		}
		err = users.CheckFree(dir)
		if who == "" && err != nil || who != "" && (script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), who)) {
			t.Errorf("%s: %v, want %q", text, err, who)
		}
	}
	if err := worker.DefaultUsers.CheckFree(filepath.Join(dir, "none")); err != nil {
		t.Error(err)
	}
}
