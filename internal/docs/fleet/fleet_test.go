// Package fleet follows the pages about security and operation from an empty folder: it
// runs the commands that they show, with the real etcd, NATS server and programs.
package fleet_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/process"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
	"github.com/scriptorium-dev/scriptorium/internal/scriptorium"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

const root = "../../.."

// TestMain makes this binary the program whose name it was started with.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "registryd":
		process.Main(registryd.Command())
	case "agentd":
		process.Main(agentd.Command())
	case "scriptorium":
		process.Main(scriptorium.Command())
	case "scriptctl":
		os.Exit(scriptctl.Run(context.Background(), scriptctl.Standard(), os.Args[1:]))
	}
	os.Exit(m.Run())
}

// programs puts all programs into the folder.
func programs(t *testing.T, dir string) {
	t.Helper()
	for command, from := range map[string]string{"openssl": "openssl", "htpasswd": "apache2-utils", "curl": "curl"} {
		needs.Command(t, command, from)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{"registryd": self, "agentd": self, "scriptctl": self, "scriptorium": self}
	for _, name := range []string{"etcd", "etcdctl", "etcdutl", "nats-server"} {
		paths[name] = needs.Program(t, name)
	}
	for name, path := range paths {
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}
