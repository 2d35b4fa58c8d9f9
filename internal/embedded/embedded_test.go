package embedded_test

import (
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
)

func startEtcd(t *testing.T, dir string) *embedded.Etcd {
	t.Helper()
	e, err := embedded.StartEtcd(t.Context(), embedded.EtcdConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	return e
}

func dialEtcd(t *testing.T, e *embedded.Etcd) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestEtcdContinues: what was written is there after a restart on the same folder,
// and an open watch does not keep the server from stopping.
func TestEtcdContinues(t *testing.T) {
	dir := t.TempDir()
	first := startEtcd(t, dir)
	c := dialEtcd(t, first)
	updates := c.Watch(t.Context(), "k")
	put, err := c.Put(t.Context(), "k", "v")
	if err != nil {
		t.Fatal(err)
	}
	<-updates // the watch is open
	first.Stop()
	first.Stop() // twice does no harm

	second := startEtcd(t, dir)
	got, err := dialEtcd(t, second).Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "v" || got.Kvs[0].ModRevision != put.Header.Revision {
		t.Errorf("after the restart: %v, want v at revision %d", got.Kvs, put.Header.Revision)
	}
}

func TestTwoEtcdsSideBySide(t *testing.T) {
	a, b := startEtcd(t, t.TempDir()), startEtcd(t, t.TempDir())
	if a.Endpoint() == b.Endpoint() {
		t.Errorf("both at %s", a.Endpoint())
	}
}

// TestNATSComesBack: a client follows a server that was stopped and came back.
func TestNATSComesBack(t *testing.T) {
	first, err := embedded.StartNATS(t.Context(), embedded.NATSConfig{Port: porttest.Port(t)})
	if err != nil {
		t.Fatal(err)
	}
	back, gone := make(chan struct{}), make(chan struct{})
	wentAway, cameBack := sync.OnceFunc(func() { close(gone) }), sync.OnceFunc(func() { close(back) })
	nc, err := nats.Connect(first.URL(), nats.MaxReconnects(-1),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { wentAway() }),
		nats.ReconnectHandler(func(*nats.Conn) { cameBack() }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	first.Stop()
	<-gone
	second, err := embedded.StartNATS(t.Context(), embedded.NATSConfig{Port: first.Port()})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Stop()
	<-back
	if second.URL() != first.URL() {
		t.Errorf("came back at %s, was at %s", second.URL(), first.URL())
	}
}

func TestNATSPortTaken(t *testing.T) {
	first, err := embedded.StartNATS(t.Context(), embedded.NATSConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Stop()
	if second, err := embedded.StartNATS(t.Context(), embedded.NATSConfig{Port: first.Port()}); err == nil {
		second.Stop()
		t.Error("a second server started on a port that is taken")
	}
}
