package etcdstore

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

var _ registry.Elector = (*Store)(nil)

// leaseSeconds is how long a leader that died is still taken for one; etcd takes up
// to a second more to find out. It grants no shorter lease.
const leaseSeconds = 2

// leader is where the candidates are: leader/<lease>, in the order of their
// campaigns.
func (k keys) leader() string { return k.prefix + "leader" }

// Campaign implements registry.Elector: the term is the revision of etcd at which
// the campaign began.
func (s *Store) Campaign(ctx context.Context) (registry.Leadership, error) {
	if _, err := s.Fleet(ctx); err != nil {
		return nil, err // whoever leads here serves the fleet that etcd has
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	lease, err := s.client.Grant(bounded, leaseSeconds)
	if err != nil {
		return nil, s.failure(ctx, "stand for election", err)
	}
	l := &leadership{store: s, lease: lease.ID}
	if err := l.campaign(ctx); err != nil {
		// Nobody is to wait for this candidate.
		revoking, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout/5)
		defer cancel()
		_ = l.Resign(revoking)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return l, nil
}

// Candidates returns what each replica that stands for election, or leads, has in its
// Config.Candidate.
func (s *Store) Candidates(ctx context.Context) ([]string, error) {
	resp, err := s.get(ctx, "read the candidates", s.keys.leader()+"/", clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	all := make([]string, len(resp.Kvs))
	for i, kv := range resp.Kvs {
		all[i] = string(kv.Value)
	}
	return all, nil
}

// leadership is a campaign, and what comes of it.
type leadership struct {
	store *Store
	lease clientv3.LeaseID
	end   context.CancelFunc // of keeping the lease alive
	lost  <-chan struct{}
	term  int64
}

func (l *leadership) campaign(ctx context.Context) error {
	// The session goes on when ctx is done, but the campaign does not; and then it
	// must not wait for an etcd that does not answer. So both work on a client
	// whose own context is the session's.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	l.end = end
	client := clientv3.NewCtxClient(life)
	client.KV, client.Lease, client.Watcher = l.store.client.KV, l.store.client.Lease, l.store.client.Watcher
	session, err := concurrency.NewSession(client, concurrency.WithLease(l.lease), concurrency.WithContext(life))
	if err != nil {
		return l.store.failure(ctx, "stand for election", err)
	}
	if session == nil {
		return script.Errorf(script.Unavailable, "", "stand for election: the lease is gone already")
	}
	l.lost = session.Done()
	go func() {
		<-session.Done()
		end()
	}()
	stop := context.AfterFunc(ctx, end)
	defer stop()
	election := concurrency.NewElection(session, l.store.keys.leader())
	if err := election.Campaign(life, l.store.candidate); err != nil {
		return l.store.failure(ctx, "stand for election", err)
	}
	l.term = election.Rev()
	return ctx.Err()
}

// Term implements registry.Leadership.
func (l *leadership) Term() int64 { return l.term }

// Lost implements registry.Leadership.
func (l *leadership) Lost() <-chan struct{} { return l.lost }

// Resign implements registry.Leadership.
func (l *leadership) Resign(ctx context.Context) error {
	if l.end != nil {
		l.end()
	}
	_, err := l.store.client.Revoke(ctx, l.lease)
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) { // it has run out
		return l.store.failure(ctx, "resign", err)
	}
	return nil
}
