package follow_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// sender is a Registry whose streams of sources the test writes.
type sender struct {
	follow.Registry
	fetch func(ctx context.Context, send func(claimed, content string) bool) error
}

func (s sender) FetchSources(ctx context.Context, _ []script.Digest) iter.Seq2[*scriptv1.Source, error] {
	return func(yield func(*scriptv1.Source, error) bool) {
		more := true
		err := s.fetch(ctx, func(claimed, content string) bool {
			src := &scriptv1.Source{Digest: wire.FromDigest(script.DigestOf([]byte(claimed)))}
			if content != "" {
				src.Content = []byte(content)
			}
			more = more && yield(src, nil)
			return more
		})
		if err != nil && more {
			yield(nil, err)
		}
	}
}

func TestFetch(t *testing.T) {
	type send = func(claimed, content string) bool
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	tests := map[string]struct {
		fetch  func(ctx context.Context, send send) error
		want   string // of "one", "two" and the empty one, which are asked for
		bad    int
		error  string
		within time.Duration
	}{
		"all": {
			fetch: func(_ context.Context, send send) error {
				send("one", "one")
				send("", "")
				send("two", "two")
				return nil
			},
			want: `,one,two`,
		},
		"some": {
			fetch: func(_ context.Context, send send) error { send("two", "two"); return nil },
			want:  "two",
		},
		"none": {fetch: func(context.Context, send) error { return nil }},
		"tampered": {
			fetch: func(_ context.Context, send send) error { send("one", "other"); send("two", "two"); return nil },
			want:  "two", bad: 1,
		},
		"not asked for": {
			fetch: func(_ context.Context, send send) error { send("three", "three"); send("two", "two"); return nil },
			want:  "two", bad: 1,
		},
		"breaks off": {
			fetch: func(_ context.Context, send send) error { send("one", "one"); return errors.New("reset by peer") },
			want:  "one", error: "reset by peer",
		},
		"never answers": {
			fetch: func(ctx context.Context, _ send) error { return hang(ctx) },
			error: "does not answer", within: 3 * time.Second,
		},
		"falls silent": {
			fetch: func(ctx context.Context, send send) error { send("one", "one"); return hang(ctx) },
			want:  "one", error: "does not answer", within: 30 * time.Second,
		},
		"ends without a word when it is canceled": {
			fetch: func(ctx context.Context, _ send) error { _ = hang(ctx); return nil },
			error: "does not answer", within: 3 * time.Second,
		},
		"all and falls silent": {
			fetch: func(ctx context.Context, send send) error {
				if send("one", "one") && send("two", "two") && send("", "") {
					return hang(ctx)
				}
				return nil
			},
			want: ",one,two",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var digests []script.Digest
				for _, s := range []string{"one", "two", ""} {
					digests = append(digests, script.DigestOf([]byte(s)))
				}
				bad, began := 0, time.Now()
				got, err := follow.Fetch(t.Context(), sender{fetch: tt.fetch}, digests, func(error) { bad++ })
				var contents []string
				for _, c := range slices.SortedFunc(maps.Values(got), slices.Compare) {
					if c == nil {
						t.Error("a source is nil")
					}
					contents = append(contents, string(c))
				}
				if strings.Join(contents, ",") != tt.want || bad != tt.bad {
					t.Errorf("got %q and %d bad ones", contents, bad)
				}
				switch {
				case tt.error == "" && err != nil:
					t.Error(err)
				case tt.error != "" && (script.KindOf(err) != script.Unavailable || !strings.Contains(err.Error(), tt.error)):
					t.Errorf("the error is %v, want %q", err, tt.error)
				}
				if took := time.Since(began); took > tt.within {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// thoughtful is a registry that takes long before it answers a sync.
type thoughtful struct {
	*world
	thinks time.Duration
}

func (r thoughtful) Pull(ctx context.Context, req *registryv1.PullRequest) iter.Seq2[*registryv1.PullResponse, error] {
	return func(yield func(*registryv1.PullResponse, error) bool) {
		select {
		case <-time.After(r.thinks):
			r.world.Pull(ctx, req)(yield)
		case <-ctx.Done():
			yield(nil, ctx.Err())
		}
	}
}

// A registry under load is waited for a little longer each time: if it were not,
// agents would only add to the load.
func TestASlowRegistryIsSyncedWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.commit(map[string]string{"a": "one"})
		n := newNode(w, "n")
		cfg := n.config(1)
		cfg.Registry = thoughtful{world: w, thinks: 20 * time.Second}
		f, err := follow.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- f.Run(ctx) }()
		pass(time.Minute)
		n.expect("after a minute")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
