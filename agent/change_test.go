package agent

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/agent/store"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// feed is a registry without objects, whose feed and reports pass through memory.
type feed struct {
	b        *testing.B
	sealer   *seal.Sealer
	attached chan follow.Handler
	live     chan time.Time // when something went live
}

func (f *feed) seal(m proto.Message) []byte {
	data, err := f.sealer.Seal(m)
	if err != nil {
		f.b.Error(err)
	}
	return data
}

func (f *feed) Pull(_ context.Context, r *registryv1.PullRequest) iter.Seq2[*registryv1.PullResponse, error] {
	return func(yield func(*registryv1.PullResponse, error) bool) {
		yield(&registryv1.PullResponse{Page: f.seal(&eventv1.Page{
			Fleet: "f", Group: script.GroupAll, Nonce: r.GetNonce(), Last: true, Since: r.GetSince(), SinceFleet: r.GetFleet(),
			HeadRevision: max(1, r.GetSince()), Full: r.GetFleet() == "",
		})}, nil)
	}
}

func (f *feed) Sync(context.Context, follow.Cursor, bool) iter.Seq2[*registryv1.SyncResponse, error] {
	return func(func(*registryv1.SyncResponse, error) bool) {}
}

func (f *feed) FetchSources(context.Context, []script.Digest) iter.Seq2[*scriptv1.Source, error] {
	return func(func(*scriptv1.Source, error) bool) {}
}

func (f *feed) Subscribe(_ context.Context, h follow.Handler) error {
	f.attached <- h
	return nil
}

func (f *feed) Report(context.Context, *eventv1.Status, seal.Session) error { return nil }

func (f *feed) Committed([]script.Object, []string) { f.live <- time.Now() }

// BenchmarkOneChange is a release with a new source, from the event on until it goes
// live (live-µs/op), and until the agent is ready for the next.
func BenchmarkOneChange(b *testing.B) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	trusted := seal.NewKeyring(key.Public().(ed25519.PublicKey))
	f := &feed{b: b, sealer: seal.NewSealer(key), attached: make(chan follow.Handler, 1), live: make(chan time.Time, 1)}
	disk, _, err := store.Open(filepath.Join(b.TempDir(), "state"), trusted)
	if err != nil {
		b.Fatal(err)
	}
	defer disk.Close()
	s := &state{
		store: disk, table: cache.NewTable(), values: cache.NewValues(nil, 1<<20), tenants: cache.NewTenants(), observer: f, group: script.GroupAll,
		programs: cache.NewPrograms(cache.Config{Engines: map[string]engine.Engine{"lua": lua.New()}, Budget: 64 << 20}),
	}
	defer s.programs.Close()
	follower, err := follow.New(follow.Config{
		Agent: "a", Trusted: trusted, State: s, Registry: f, Feed: f, Reporter: f, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- follower.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}()
	handler := <-f.attached
	reach := func(r script.Revision) {
		tick := time.NewTicker(50 * time.Microsecond)
		defer tick.Stop()
		for at, _ := follower.Position(time.Now()); at < r; at, _ = follower.Position(time.Now()) {
			<-tick.C
		}
	}
	reach(1)
	revision, live := script.Revision(1), time.Duration(0)
	filler := strings.Repeat("local function f(x) return x + 1 end -- and a comment of some length\n", 10)
	for b.Loop() {
		revision++
		event := f.change(revision, fmt.Sprintf("%sfunction handle() return %d end", filler, revision))
		began := time.Now()
		handler.Event(event)
		live += (<-f.live).Sub(began)
		reach(revision)
	}
	b.ReportMetric(float64(live.Microseconds())/float64(b.N), "live-µs/op")
}

// change returns the event that releases the source.
func (f *feed) change(revision script.Revision, source string) []byte {
	d := script.DigestOf([]byte(source))
	version := script.Version{Number: uint64(revision), Digest: d, Engine: "lua", Entrypoint: "handle", Size: len(source)}
	r := script.Release{
		Name: script.Name{Tenant: "acme", Script: "a"}, Revision: revision, Enabled: true, Latest: version.Number,
		Active: version, Retained: []script.Version{version},
	}
	return f.seal(&eventv1.Event{
		Fleet: "f", Group: script.GroupAll, Revision: int64(revision), PreviousRevision: int64(revision - 1),
		Entries: [][]byte{f.seal(wire.FromReleaseEntry("f", r))}, Sources: []*scriptv1.Source{{Digest: wire.FromDigest(d), Content: []byte(source)}},
	})
}
