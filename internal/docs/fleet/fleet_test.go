// Package fleet follows the pages about security and operation from an empty folder: it
// runs the commands that they show, with the real etcd, NATS server and programs.
package fleet_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/process"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
)

const root = "../../.."

// TestMain makes this binary the program whose name it was started with.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "registryd":
		process.Main(registryd.Command())
	case "agentd":
		process.Main(agentd.Command())
	case "scriptctl":
		os.Exit(scriptctl.Run(context.Background(), scriptctl.Standard(), os.Args[1:]))
	}
	os.Exit(m.Run())
}

// servers are the programs of others, by the packages of tools/go.mod that they are.
var servers = map[string]string{
	"etcd":        "go.etcd.io/etcd/server/v3",
	"etcdctl":     "go.etcd.io/etcd/etcdctl/v3",
	"etcdutl":     "go.etcd.io/etcd/etcdutl/v3",
	"nats-server": "github.com/nats-io/nats-server/v2",
}

// programs puts all programs into the folder.
func programs(t *testing.T, dir string) {
	t.Helper()
	for command, from := range map[string]string{"openssl": "openssl", "htpasswd": "apache2-utils", "curl": "curl"} {
		if _, err := exec.LookPath(command); err != nil {
			t.Skipf("needs the command %s, which .ci/run installs with the Debian package %s", command, from)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{"registryd": self, "agentd": self, "scriptctl": self}
	for name, pkg := range servers {
		// It prints the path of what it has built into Go's cache.
		cmd := exec.CommandContext(t.Context(), "go", "tool", "-n", pkg)
		cmd.Dir = filepath.Join(root, "tools")
		var said strings.Builder
		cmd.Stderr = &said
		path, err := cmd.Output()
		if err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, said.String())
		}
		paths[name] = strings.TrimSpace(string(path))
	}
	for name, path := range paths {
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}
