package execute_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
)

// A tenant whose many scripts crowd each other out of the cache, so that each call
// compiles one, holds up neither what is compiled nor what has to be.
func TestThrashing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const compiling, scripts = 10 * time.Millisecond, 64
		n := newNode(t, 1, 1, 1024) // one program fits
		for i := range scripts {
			n.publish(fmt.Sprint("s", i), nil, fmt.Sprint("source ", i))
		}
		quiet := func(name string) string {
			v := script.Version{Number: 1, Digest: script.DigestOf([]byte(name)), Engine: "fake"}
			n.mu.Lock()
			n.sources[v.Digest] = []byte(name)
			n.mu.Unlock()
			r := script.Release{
				Name: script.Name{Tenant: "quiet", Script: name}, Revision: 1, Enabled: true, Active: v, Retained: []script.Version{v},
			}
			n.table.Update([]*cache.Release{cache.NewRelease(r)}, nil)
			return "quiet/" + name
		}
		var at atomic.Int64
		n.compile = func() {
			if at.Add(1) > 1 {
				t.Error("two programs are compiled at once")
			}
			<-time.After(compiling)
			at.Add(-1)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for i := range scripts {
			all.Go(func() {
				for ctx.Err() == nil {
					if err := n.Execute(ctx, &gateway.Call{Script: fmt.Sprint("acme/s", i)}, &gateway.Reply{}); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
					<-time.After(time.Millisecond)
				}
			})
		}
		<-time.After(100 * time.Millisecond)
		for i := range 20 {
			name := quiet(fmt.Sprint("cold", i))
			began := time.Now()
			if err := n.Execute(t.Context(), &gateway.Call{Script: name}, &gateway.Reply{}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 2*compiling {
				t.Errorf("a program of the other tenant was there after %v", took)
			}
			<-time.After(30 * time.Millisecond)
		}
		all.Wait()
		<-time.After(time.Second) // what was asked for is compiled, although nobody waits for it
	})
}

// Whoever may use little of the processor may compile little.
func TestCompilingIsPaidFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, 1, 1, 16)
		n.settings = script.TenantSettings{CPU: 1}
		n.compile = func() { <-time.After(time.Second) }
		n.publish("a", nil, "one")
		n.publish("b", nil, "two")
		if err := n.Execute(t.Context(), &gateway.Call{Script: "acme/a"}, &gateway.Reply{}); err != nil {
			t.Fatal(err)
		}
		err := n.Execute(t.Context(), &gateway.Call{Script: "acme/b"}, &gateway.Reply{})
		if script.KindOf(err) != script.Overloaded || !strings.Contains(err.Error(), "compiled first: acme has used the 1 thousandths") {
			t.Errorf("got %v", err)
		}
	})
}
