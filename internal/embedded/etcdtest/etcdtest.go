// Package etcdtest gives the tests of a package an etcd that they share.
package etcdtest

import (
	"context"
	"flag"
	"os"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/internal/embedded"
)

// Found founds a fleet for a test, unless the store has one, and returns its id.
func Found(tb testing.TB, store interface {
	Found(ctx context.Context, id string) (fleet string, founded bool, err error)
},
) string {
	tb.Helper()
	fleet, _, err := store.Found(tb.Context(), "")
	if err != nil {
		tb.Fatalf("found a fleet: %v", err)
	}
	return fleet
}

// Client returns a client of the etcd at the endpoint, which the test closes.
func Client(tb testing.TB, endpoint string) *clientv3.Client {
	tb.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

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
