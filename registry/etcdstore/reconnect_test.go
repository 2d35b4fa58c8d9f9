package etcdstore_test

import (
	"context"
	"crypto/rand"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/etcdstore"
)

// TestReconnects: the store tries to connect at least every 3 s, however long etcd was away,
// and works at the first attempt after etcd is back. The clock is virtual, etcd is real.
func TestReconnects(t *testing.T) {
	const (
		outage = 450 * time.Second
		most   = 3 * time.Second // between two attempts
	)
	synctest.Test(t, func(t *testing.T) {
		var (
			mu       sync.Mutex
			attempts []time.Time
			back     atomic.Bool
		)
		config := etcdstore.Config{Endpoints: []string{etcd.Endpoint()}, Prefix: "/" + rand.Text()}
		store, err := etcdstore.Open(config.WithDialer(func(ctx context.Context, address string) (net.Conn, error) {
			mu.Lock()
			attempts = append(attempts, time.Now())
			mu.Unlock()
			if !back.Load() {
				return nil, syscall.ECONNREFUSED
			}
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if _, err := store.Head(t.Context()); err == nil {
			t.Error("etcd is away, and Head returns no error")
		}
		<-time.After(outage)
		back.Store(true)
		returned := time.Now()
		for {
			if _, err := store.Head(t.Context()); err == nil {
				break
			}
		}
		if took := time.Since(returned); took > most {
			t.Errorf("the store works %v after etcd is back, want at most %v", took, most)
		}
		mu.Lock()
		defer mu.Unlock()
		for i, at := range attempts[1:] {
			if gap := at.Sub(attempts[i]); gap > most {
				t.Errorf("%v passed between two attempts, want at most %v", gap, most)
			}
		}
		if least := int(outage / most); len(attempts) < least {
			t.Errorf("%d attempts in %v, want at least %d", len(attempts), outage, least)
		}
	})
}
