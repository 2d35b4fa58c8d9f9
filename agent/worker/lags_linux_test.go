package worker

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// slow is the link to a process that takes each change after so long.
type slow struct {
	*recorder
	takes atomic.Int64
}

func (s *slow) Apply(ctx context.Context, req *workerv1.ApplyRequest, opts ...grpc.CallOption) (*workerv1.ApplyResponse, error) {
	select {
	case <-time.After(time.Duration(s.takes.Load())):
		return s.recorder.Apply(ctx, req, opts...)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// newLagging returns a tenant without a process, how often the pool said that lags have changed, and a
// check of both.
func newLagging(t *testing.T) (acme *tenant, changed *atomic.Int64, want func(what string, lags map[string]script.Revision, told int64)) {
	t.Helper()
	acme, changed = newIdle(t, &bytes.Buffer{}), &atomic.Int64{}
	acme.pool.cfg.Changed = func() { changed.Add(1) }
	acme.pool.byName.Store(&map[string]*tenant{"acme": acme})
	return acme, changed, func(what string, lags map[string]script.Revision, told int64) {
		t.Helper()
		synctest.Wait()
		if got := acme.pool.Lags(); !maps.Equal(got, lags) || changed.Load() != told {
			t.Errorf("%s: lags %v, told %d times; want %v, %d times", what, got, changed.Load(), lags, told)
		}
	}
}

// TestLags: what a process lacks shows from when nobody waits for it any more until the process,
// or the next one, has it.
func TestLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acme, changed, want := newLagging(t)
		p, r := ready(t, acme)
		link := &slow{recorder: r}
		p.client = link
		if err := acme.giveAll(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		changed.Store(0)
		put := func(name string, revision script.Revision) []script.Object {
			return []script.Object{{Release: releaseOf(script.Name{Tenant: "acme", Script: name}, revision)}}
		}
		pass := func(d time.Duration) { <-time.After(d) }
		commit := func(takes time.Duration, put []script.Object, removed ...string) {
			link.takes.Store(int64(takes))
			acme.pool.Committed(put, removed)
		}

		commit(50*time.Millisecond, put("route", 5))
		want("one that is in time", nil, 0)
		pass(10 * time.Second)
		link.takes.Store(int64(time.Second))
		go acme.pool.Committed(put("route", 7), nil)
		pass(promptly / 2)
		want("while others wait for it", nil, 0)
		pass(promptly)
		want("when others do not wait for it any more", map[string]script.Revision{"acme": 6}, 0)
		commit(time.Second, put("cart", 9))
		want("with another change", map[string]script.Revision{"acme": 6}, 0)
		pass(time.Second)
		want("when it has the first change", map[string]script.Revision{"acme": 8}, 1)
		pass(time.Second)
		want("when it has both", nil, 2)

		for revision := script.Revision(20); revision < 30; revision += 2 { // there is always one more on its way
			commit(time.Second, put("route", revision))
			pass(time.Second - 2*promptly)
		}
		pass(promptly)
		want("with a script that changes faster than the process takes it", map[string]script.Revision{"acme": 27}, 6)
		pass(20 * time.Second)
		want("when the process has all of it", nil, 7)
		changed.Store(2)

		value := []script.Object{{Value: &script.Value{Key: script.ValueKey{Tenant: "acme", Key: "flag"}, Revision: 10, Version: 1, Digest: script.Digest{1}}}}
		commit(time.Second, value)
		pass(promptly)
		want("with a late value", nil, 2)
		pass(20 * time.Second)
		commit(time.Second, nil, "releases/acme/route")
		want("with a late deletion", map[string]script.Revision{"acme": 0}, 2)
		pass(20 * time.Second)
		want("when that is through", nil, 3)

		commit(time.Hour, put("route", 12))
		pass(tellPatience)
		want("when it is given up", map[string]script.Revision{"acme": 11}, 3)
		commit(0, put("route", 13))
		want("with a change meanwhile", map[string]script.Revision{"acme": 11}, 3)
		next, _ := ready(t, acme)
		if err := acme.giveAll(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		want("with the next process", nil, 4)
		acme.pool.byName.Store(&map[string]*tenant{})
	})
}

// TestLagsWithoutAProcess: what a commit brings while the tenant has no process shows until one has
// it, and all of a tenant whose first process is being started shows. No call is answered meanwhile.
func TestLagsWithoutAProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acme, _, want := newLagging(t)
		give := func() *process {
			p, _ := ready(t, acme)
			if err := acme.giveAll(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			return p
		}
		commit := func(revision script.Revision) {
			acme.pool.Committed([]script.Object{{Release: releaseOf(script.Name{Tenant: "acme", Script: "route"}, revision)}}, nil)
		}

		want("a tenant whose first process is being started", map[string]script.Revision{"acme": 0}, 0)
		commit(5)
		want("with a change meanwhile", map[string]script.Revision{"acme": 0}, 0)
		p := give()
		want("once it has a process", nil, 1)
		acme.drop(p)
		want("when that has died", nil, 1)
		commit(7)
		want("with a change since", map[string]script.Revision{"acme": 6}, 1)
		commit(9)
		want("with two of them", map[string]script.Revision{"acme": 6}, 1)
		give()
		want("with the next process", nil, 2)
		acme.pool.byName.Store(&map[string]*tenant{})
	})
}

// fleeting is the link to a process that takes all, and dies as it begins to serve.
type fleeting struct{ *recorder }

func (fleeting) Serve(context.Context, *workerv1.ServeRequest, ...grpc.CallOption) (*workerv1.ServeResponse, error) {
	return nil, errors.New("died")
}

func (*recorder) Serve(context.Context, *workerv1.ServeRequest, ...grpc.CallOption) (*workerv1.ServeResponse, error) {
	return &workerv1.ServeResponse{}, nil
}

// TestLagsOfAProcessThatNeverServes: what such a process was given shows again until one serves that
// has it, and the agent reports that at once.
func TestLagsOfAProcessThatNeverServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acme, _, want := newLagging(t)
		give := func(dies bool) *process {
			t.Helper()
			p, r := ready(t, acme)
			if dies {
				p.client = fleeting{r}
			}
			if err := acme.handOver(p); (err != nil) != dies {
				t.Fatalf("to hand over to a process: %v", err)
			}
			return p
		}
		commit := func(revision script.Revision) {
			acme.pool.Committed([]script.Object{{Release: releaseOf(script.Name{Tenant: "acme", Script: "route"}, revision)}}, nil)
		}

		commit(3)
		give(true)
		want("when the first process dies as it begins to serve", map[string]script.Revision{"acme": 0}, 2)
		commit(5)
		p := give(false)
		want("when one serves", nil, 3)
		acme.drop(p)
		give(true)
		want("when the next one dies, and nothing is new", nil, 3)
		commit(7)
		give(true)
		want("with a change before that", map[string]script.Revision{"acme": 6}, 5)
		commit(9)
		want("and one after it", map[string]script.Revision{"acme": 6}, 5)
		give(false)
		want("with a process that serves", nil, 6)
		acme.pool.byName.Store(&map[string]*tenant{})
	})
}
