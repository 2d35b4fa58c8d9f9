package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

// blobs counts how often each source is read from the store, which has every one of the
// contents.
type blobs struct {
	*memstore.Store
	contents map[script.Digest][]byte

	mu    sync.Mutex
	reads map[script.Digest]int
	fail  error // of the next read
}

func newBlobs(contents ...[]byte) (*blobs, []script.Digest) {
	b := &blobs{Store: memstore.New(), contents: map[script.Digest][]byte{}, reads: map[script.Digest]int{}}
	var digests []script.Digest
	for _, content := range contents {
		d := script.DigestOf(content)
		b.contents[d] = content
		digests = append(digests, d)
	}
	return b, digests
}

func (b *blobs) Sources(_ context.Context, digests []script.Digest) (found []registry.Source, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err, b.fail = b.fail, nil; err != nil {
		return nil, err
	}
	for _, d := range digests {
		b.reads[d]++
		if content, there := b.contents[d]; there {
			found = append(found, registry.Source{Digest: d, Content: content})
		}
	}
	return found, nil
}

func (b *blobs) total() (reads int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.reads {
		reads += n
	}
	return reads
}

func wantContents(t *testing.T, r *registry.Registry, store *blobs, digests []script.Digest) {
	t.Helper()
	sources, err := r.Sources(t.Context(), digests)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sources {
		if !bytes.Equal(s.Content, store.contents[s.Digest]) {
			t.Errorf("%v came with the content %.20q", s.Digest, s.Content)
		}
	}
	if len(sources) != len(digests) {
		t.Errorf("%d sources for %d digests", len(sources), len(digests))
	}
}

// TestAFleetThatJoinsReadsSourcesOnce: agents that join at once want the same sources.
func TestAFleetThatJoinsReadsSourcesOnce(t *testing.T) {
	var contents [][]byte
	for i := range 50 {
		contents = append(contents, fmt.Appendf(nil, "source %d", i))
	}
	store, digests := newBlobs(contents...)
	r := registry.New(registry.Config{Store: store})
	var agents errgroup.Group
	for range 20 {
		agents.Go(func() error {
			sources, err := r.Sources(t.Context(), digests)
			if len(sources) != len(digests) {
				t.Errorf("%d sources for %d digests", len(sources), len(digests))
			}
			return err
		})
	}
	if err := agents.Wait(); err != nil {
		t.Fatal(err)
	}
	if reads := store.total(); reads != len(digests) {
		t.Errorf("%d reads of %d sources", reads, len(digests))
	}
	wantContents(t, r, store, digests[7:9])
}

func TestSourcesThatAreNotThereAreReadAgain(t *testing.T) {
	store, digests := newBlobs([]byte("here"))
	r := registry.New(registry.Config{Store: store})
	later := []byte("comes later")
	missing := script.DigestOf(later)
	if sources, err := r.Sources(t.Context(), []script.Digest{digests[0], missing}); len(sources) != 1 || err != nil {
		t.Errorf("%v, %v", sources, err)
	}
	store.contents[missing] = later
	wantContents(t, r, store, []script.Digest{missing, digests[0]})
}

func TestAFailedReadOfSourcesIsNotRemembered(t *testing.T) {
	store, digests := newBlobs([]byte("one"))
	store.fail = errors.New("etcd is down")
	r := registry.New(registry.Config{Store: store})
	if _, err := r.Sources(t.Context(), digests); err == nil {
		t.Error("a failed read is taken for none")
	}
	wantContents(t, r, store, digests)
}

// TestSourcesInMemoryAreBounded: old ones give way.
func TestSourcesInMemoryAreBounded(t *testing.T) {
	large := bytes.Repeat([]byte("x"), script.MaxSourceBytes)
	var contents [][]byte
	for i := range 2 * registry.SourceMemory / script.MaxSourceBytes {
		content := bytes.Clone(large)
		copy(content, fmt.Append(nil, i))
		contents = append(contents, content)
	}
	store, digests := newBlobs(contents...)
	r := registry.New(registry.Config{Store: store})
	for i := range digests {
		wantContents(t, r, store, digests[i:i+1])
	}
	reads := store.total()
	wantContents(t, r, store, digests[len(digests)-1:])
	if store.total() != reads {
		t.Error("the last source was read again")
	}
	wantContents(t, r, store, digests[:1])
	if store.total() == reads {
		t.Errorf("%d MiB of sources are in memory", len(digests)*script.MaxSourceBytes>>20)
	}
}

// slow is a store whose reads take until it is released.
type slow struct {
	*blobs
	reading, release chan struct{}
}

func (s slow) Sources(ctx context.Context, digests []script.Digest) ([]registry.Source, error) {
	close(s.reading)
	<-s.release
	return s.blobs.Sources(ctx, digests)
}

func TestWhoWaitsForSourcesCanLeave(t *testing.T) {
	b, digests := newBlobs([]byte("one"))
	store := slow{blobs: b, reading: make(chan struct{}), release: make(chan struct{})}
	r := registry.New(registry.Config{Store: store})
	var first errgroup.Group
	first.Go(func() error {
		_, err := r.Sources(t.Context(), digests)
		return err
	})
	<-store.reading
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Sources(ctx, digests); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	close(store.release)
	if err := first.Wait(); err != nil {
		t.Error(err)
	}
}
