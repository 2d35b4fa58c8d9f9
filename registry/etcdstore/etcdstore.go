// Package etcdstore keeps the registry's state in etcd. It is the only importer
// of the etcd client.
package etcdstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// DefaultPrefix is where everything is kept unless configured.
const DefaultPrefix = "/scriptorium/"

// Config says which etcd, and where in it.
type Config struct {
	// Endpoints of etcd, such as "http://127.0.0.1:2379".
	Endpoints []string
	// Prefix of all keys; DefaultPrefix if empty. Registries with one prefix are
	// replicas of each other.
	Prefix string
	// Fleet is the only one that is served. If empty, it is the one that Fleet or Snapshot
	// reads first.
	Fleet string
	// Security of the connections.
	Security Security
	// Candidate is what other replicas see of this one, see Store.Candidates.
	Candidate string
	// Observe is called for each request to etcd, with its gRPC method, how long it took, and whether etcd gave no
	// answer. It must not block. May be nil.
	Observe func(method string, took time.Duration, failed bool)
	// Tracer makes the spans of transactions; nil for none.
	Tracer trace.Tracer

	options []grpc.DialOption // of tests
}

// Store is a registry.Store in etcd. It is safe for concurrent use.
type Store struct {
	client    *clientv3.Client
	keys      keys
	endpoints string
	requests  requestLease
	trouble   *trouble
	candidate string
	tracer    trace.Tracer
	served    served
	seen      atomic.Int64 // the highest revision of etcd that an answer had
}

var (
	_ registry.Store   = (*Store)(nil)
	_ registry.Garbage = (*Store)(nil)
)

// reconnect bounds the time from the return of etcd to the next attempt to connect. With
// gRPC's own backoff, that time grows to two minutes. MinConnectTimeout leaves time for the
// TLS handshake of a busy etcd.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
	MinConnectTimeout: 5 * time.Second,
}

// Open returns a store. It does not wait for etcd: operations are Unavailable
// until it can be reached.
func Open(cfg Config) (*Store, error) {
	if len(cfg.Endpoints) == 0 {
		return nil, script.Errorf(script.Invalid, "etcd endpoints", "name at least one endpoint of etcd")
	}
	config := clientv3.Config{
		Endpoints:            cfg.Endpoints,
		DialKeepAliveTime:    5 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
		Logger:               zap.NewNop(),
		DialOptions:          append([]grpc.DialOption{grpc.WithConnectParams(reconnect)}, cfg.options...),
	}
	observer(cfg.Observe).configure(&config)
	trouble := &trouble{}
	made, err := cfg.Security.configure(&config, trouble)
	if err != nil {
		return nil, err
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "etcd endpoints", "cannot use %s: %w", strings.Join(cfg.Endpoints, ", "), err)
	}
	made()
	s := &Store{
		client:    client,
		keys:      keys{prefix: normalPrefix(DefaultPrefix)},
		endpoints: strings.Join(cfg.Endpoints, ", "),
		trouble:   trouble,
		candidate: cfg.Candidate,
		tracer:    cfg.Tracer,
	}
	if s.tracer == nil {
		s.tracer = noop.Tracer{}
	}
	if cfg.Prefix != "" {
		s.keys.prefix = normalPrefix(cfg.Prefix)
	}
	s.served.fleet = cfg.Fleet
	return s, nil
}

// Close ends the connection, and all watches with it.
func (s *Store) Close() error { return s.client.Close() }

// Head implements registry.Store.
func (s *Store) Head(ctx context.Context) (script.Revision, error) {
	resp, err := s.get(ctx, "read the head", s.keys.head())
	if err != nil || len(resp.Kvs) == 0 {
		return 0, err
	}
	return script.Revision(resp.Kvs[0].ModRevision), nil
}

// Release implements registry.Store.
func (s *Store) Release(ctx context.Context, name script.Name) (script.Release, error) {
	resp, err := s.get(ctx, "read "+name.String(), s.keys.release(name))
	if err != nil {
		return script.Release{}, err
	}
	if len(resp.Kvs) > 0 {
		return s.keys.decodeRelease(resp.Kvs[0])
	}
	resp, err = s.get(ctx, "read the version floor of "+name.String(), s.keys.versionFloor(name))
	if err != nil {
		return script.Release{}, err
	}
	if len(resp.Kvs) == 0 {
		return script.Release{}, script.Errorf(script.NotFound, "name", "there is no script %s", name)
	}
	return s.decodeVersionFloor(resp.Kvs[0])
}

// Releases implements registry.Store.
func (s *Store) Releases(ctx context.Context, tenant string, last script.Name, limit int) ([]script.Release, []registry.Unreadable, error) {
	from := s.keys.releases()
	if tenant != "" {
		from = s.keys.tenant(tenant)
	}
	end := clientv3.GetPrefixRangeEnd(from)
	if !last.IsZero() {
		from = max(from, after(s.keys.release(last)))
	}
	return livePage(ctx, s, "list releases", from, end, limit, s.keys.decodeRelease, func(r script.Release) bool { return !r.Deleted })
}

// livePage returns at most limit of what is stored between the keys and is live, and what
// cannot be decoded.
func livePage[T any](ctx context.Context, s *Store, what, from, end string, limit int,
	decode func(*mvccpb.KeyValue) (T, error), live func(T) bool,
) (page []T, unreadable []registry.Unreadable, err error) {
	for len(page) < limit && from < end {
		resp, err := s.get(ctx, what, from, clientv3.WithRange(end), clientv3.WithLimit(int64(limit-len(page))))
		if err != nil {
			return nil, nil, err
		}
		for _, kv := range resp.Kvs {
			from = after(string(kv.Key))
			if !s.keys.isObject(string(kv.Key)) {
				continue
			}
			t, err := decode(kv)
			if u, ok := errors.AsType[*registry.Unreadable](err); ok {
				unreadable = append(unreadable, *u)
			} else if live(t) {
				page = append(page, t)
			}
		}
		if !resp.More {
			break
		}
	}
	return page, unreadable, nil
}

// Version implements registry.Store.
func (s *Store) Version(ctx context.Context, name script.Name, number uint64) (script.Version, error) {
	resp, err := s.get(ctx, "read a version of "+name.String(), s.keys.version(name, number))
	if err != nil {
		return script.Version{}, err
	}
	if len(resp.Kvs) == 0 {
		return script.Version{}, script.Errorf(script.NotFound, "version", "%s has no version %d", name, number)
	}
	return decodeVersion(resp.Kvs[0])
}

// Source implements registry.Store.
func (s *Store) Source(ctx context.Context, digest script.Digest) ([]byte, error) {
	resp, err := s.get(ctx, "read a source", s.keys.blob(digest))
	if err != nil {
		return nil, err
	}
	if len(resp.Kvs) == 0 {
		return nil, script.Errorf(script.NotFound, "digest", "there is no source %s", digest)
	}
	return s.whole(ctx, digest, resp.Kvs[0].Value)
}

// opsPerTxn is how many reads go into one request; etcd allows 128.
const opsPerTxn = 100

// Sources implements registry.Store.
func (s *Store) Sources(ctx context.Context, digests []script.Digest) ([]registry.Source, error) {
	found := make([]registry.Source, 0, len(digests))
	for len(digests) > 0 {
		batch := digests[:min(opsPerTxn, len(digests))]
		digests = digests[len(batch):]
		reads := make([]clientv3.Op, len(batch))
		for i, d := range batch {
			reads[i] = clientv3.OpGet(s.keys.blob(d))
		}
		resp, err := s.read(ctx, "read sources", reads)
		if err != nil {
			return nil, err
		}
		for i, r := range resp.Responses {
			if kvs := r.GetResponseRange().GetKvs(); len(kvs) > 0 {
				content, err := s.whole(ctx, batch[i], kvs[0].Value)
				if err != nil {
					return nil, err
				}
				found = append(found, registry.Source{Digest: batch[i], Content: content})
			}
		}
	}
	return found, nil
}

// timeout bounds each operation, besides its context.
const timeout = 5 * time.Second

// get reads within the timeout.
func (s *Store) get(ctx context.Context, what, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := s.client.Get(bounded, key, opts...)
	if err != nil {
		return nil, s.failure(ctx, what, err)
	}
	s.see(resp.Header.GetRevision())
	return resp, nil
}

// read runs reads as of one revision, within the timeout.
func (s *Store) read(ctx context.Context, what string, reads []clientv3.Op) (*clientv3.TxnResponse, error) {
	return s.transact(ctx, what, nil, reads, nil)
}

// commit runs a transaction that writes, within the timeout, if etcd has the fleet that the store
// serves. All writes of the store go through it: a registry that has not noticed yet that etcd was
// lost, or holds another fleet now, must neither leave nor remove anything there.
func (s *Store) commit(ctx context.Context, what string, guards []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	fleet, err := s.serving(ctx)
	if err != nil {
		return nil, err
	}
	key := s.keys.fleet()
	resp, err := s.transact(ctx, what,
		append(slices.Clip(guards), clientv3.Compare(clientv3.Value(key), "=", fleet)), then,
		append(slices.Clip(otherwise), clientv3.OpGet(key)))
	if err != nil || resp.Succeeded {
		return resp, err
	}
	if _, err := s.serve(resp.Responses[len(otherwise)].GetResponseRange().GetKvs()); err != nil {
		return nil, err
	}
	return resp, nil
}

// transact runs a transaction within the timeout.
func (s *Store) transact(ctx context.Context, what string, guards []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := s.client.Txn(bounded).If(guards...).Then(then...).Else(otherwise...).Commit()
	if err != nil {
		return nil, s.failure(ctx, what, err)
	}
	s.see(resp.Header.GetRevision())
	return resp, nil
}
