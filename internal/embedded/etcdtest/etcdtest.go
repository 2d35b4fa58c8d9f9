// Package etcdtest gives the tests of a package an etcd that they share.
package etcdtest

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/embedded"
)

// Run runs the tests while an etcd runs, and returns the exit code: TestMain
// exits with that. started is given the etcd before the first test; each test uses a
// prefix of its own.
func Run(m *testing.M, started func(*embedded.Etcd)) int {
	flag.Parse()
	dir, err := os.MkdirTemp("", "etcdtest")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is in the folder of temporary files
	etcd, err := embedded.StartEtcd(context.Background(), embedded.EtcdConfig{Dir: dir})
	if err != nil {
		panic(err)
	}
	defer etcd.Stop()
	started(etcd)
	return m.Run()
}
