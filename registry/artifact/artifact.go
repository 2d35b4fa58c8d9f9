// Package artifact fetches sources from OCI registries: WebAssembly modules and bundles of Rego that a publish names by
// digest. Nodes never fetch: the registry of scripts does so once, checks what came, and stores it as any source.
//
// Who publishes chooses the reference, so the reference is hostile: only registries that an operator allows are
// contacted, and nothing on the way may lead the connection or the credentials elsewhere; see guard.
package artifact

import (
	"context"
	"crypto/tls"
	"net/http"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/scriptorium-dev/scriptorium/script"
)

// field is what errors name: of a publish request.
const field = "settings.artifact"

// Bounds of a fetch. The largest layer is script.MaxArtifactBytes.
const (
	timeout          = 15 * time.Second
	maxManifestBytes = 256 << 10
	maxFetches       = 4 // at a time
	// A publish that is tried again, and the same artifact for several scripts, fetch once.
	kept    = 4 // artifacts
	keptFor = 5 * time.Minute
)

// Config says where artifacts may come from.
type Config struct {
	// Registries are hosts, each with a port if it is not the usual one: "ghcr.io", "registry.example:5000", or
	// "*.example" for all hosts below example.
	Registries []string
	// Credentials returns the contents of a file in the format of docker's config.json, whose auths alone count; nil
	// for none. Each fetch calls it, so that a new password needs no restart.
	Credentials func() ([]byte, error)
	// PlainHTTP has registries on loopback spoken to without TLS.
	PlainHTTP bool
	// TLS is how to connect; with the system's roots if nil.
	TLS *tls.Config
	// Clock tells how old a kept artifact is; time.Now if nil.
	Clock func() time.Time
}

// Fetcher fetches artifacts. It is safe for concurrent use.
type Fetcher struct {
	guard       *guard
	client      *http.Client
	credentials func() ([]byte, error)
	now         func() time.Time
	kept        *lru.Cache[key, fetched]
	flights     singleflight.Group
	room        chan struct{}
}

// key is of an artifact: a digest names one content in all repositories, but the right to read it differs between them.
type key struct{ reference, engine string }

type fetched struct {
	source []byte
	at     time.Time
}

// New returns a Fetcher. An Invalid error names the registry that is no host; it has no field.
func New(cfg Config) (*Fetcher, error) {
	g, err := newGuard(cfg)
	if err != nil {
		return nil, err
	}
	cache, err := lru.New[key, fetched](kept)
	if err != nil {
		return nil, script.Errorf(script.Internal, field, "%w", err)
	}
	f := &Fetcher{
		guard: g, client: g.client(cfg.TLS), credentials: cfg.Credentials, now: cfg.Clock,
		kept: cache, room: make(chan struct{}, maxFetches),
	}
	if f.now == nil {
		f.now = time.Now
	}
	return f, nil
}

// Fetch returns the source that the reference names, for that engine; nobody may change it. See script.CheckArtifact
// for references. Errors are *script.Error of the field settings.artifact: Unavailable if another try may succeed,
// otherwise Invalid.
func (f *Fetcher) Fetch(ctx context.Context, reference, engine string) ([]byte, error) {
	if err := script.CheckArtifact(field, reference); err != nil {
		return nil, err
	}
	name, err := registry.ParseReference(strings.TrimPrefix(reference, "oci://"))
	if err != nil {
		return nil, script.Errorf(script.Invalid, field, "%.200q is not a reference such as oci://registry.example/team/route:v3@sha256:…", reference)
	}
	if err := f.guard.checkRegistry(name.Registry); err != nil {
		return nil, err
	}
	k := key{reference, engine}
	if c, ok := f.kept.Get(k); ok && f.now().Sub(c.at) < keptFor {
		return c.source, nil
	}
	// The fetch is for all who wait for it, so it does not end with the first of them.
	flight := f.flights.DoChan(engine+" "+reference, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		return f.fetch(ctx, name, k)
	})
	select {
	case r := <-flight:
		source, _ := r.Val.([]byte)
		return source, r.Err
	case <-ctx.Done():
		return nil, unreachable(name.Registry, ctx.Err())
	}
}

// fetch fetches and keeps.
func (f *Fetcher) fetch(ctx context.Context, name registry.Reference, k key) ([]byte, error) {
	select {
	case f.room <- struct{}{}:
		defer func() { <-f.room }()
	case <-ctx.Done():
		return nil, script.Errorf(script.Unavailable, field, "this registry fetches %d other artifacts, and they take long: try again", maxFetches)
	}
	repository, err := f.repository(name)
	if err != nil {
		return nil, err
	}
	source, err := pull(ctx, repository, k.engine)
	if err != nil {
		return nil, explain(name, err)
	}
	f.kept.Add(k, fetched{source: source, at: f.now()})
	return source, nil
}

// repository is the client of one fetch: credentials and tokens are not kept beyond it.
func (f *Fetcher) repository(name registry.Reference) (*remote.Repository, error) {
	credential, err := credentials(f.credentials)
	if err != nil {
		return nil, err
	}
	return &remote.Repository{
		Reference: name,
		PlainHTTP: f.guard.plain(name.Host()),
		Client: &auth.Client{
			Client: f.client, Credential: credential, Cache: auth.NewCache(),
			Header: http.Header{"User-Agent": {"scriptorium"}},
		},
		MaxMetadataBytes: maxManifestBytes,
	}, nil
}
