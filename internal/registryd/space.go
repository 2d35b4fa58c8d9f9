package registryd

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/registry/etcdstore"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// spaceInterval is how often the registry asks etcd for its size.
	spaceInterval = 5 * time.Second
	// reserve is the part of etcd's quota that is left for leases, deletes and rollbacks.
	reserve = 0.1
)

// space is how full etcd is.
type space struct {
	store interface {
		Space(ctx context.Context) (etcdstore.Space, error)
	}
	last atomic.Pointer[etcdstore.Space]
}

// run keeps it current until ctx is done. While etcd does not answer, what it said last holds.
func (s *space) run(ctx context.Context) {
	s.look(ctx)
	every(ctx, spaceInterval, func() { s.look(ctx) })
}

func (s *space) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, spaceInterval)
	defer cancel()
	if found, err := s.store.Space(ctx); err == nil {
		s.last.Store(&found)
	}
}

func (s *space) get() etcdstore.Space {
	if last := s.last.Load(); last != nil {
		return *last
	}
	return etcdstore.Space{}
}

// check returns an error if etcd is too full for anything that takes room.
func (s *space) check() error {
	now := s.get()
	if now.Quota == 0 || float64(now.Used) < (1-reserve)*float64(now.Quota) {
		return nil
	}
	return script.Errorf(script.Limit, "", "etcd uses %d of %d bytes, and the rest is for deletes and rollbacks: delete what nobody needs, compact and defragment etcd, or raise its quota", now.Used, now.Quota)
}

// memory is the fleet's memory in etcd. It stores nothing about agents while etcd is nearly full.
type memory struct {
	*etcdstore.Store
	space *space
}

// Remember implements fleet.Memory.
func (m memory) Remember(ctx context.Context, memos []fleet.Memo) error {
	if slices.ContainsFunc(memos, func(one fleet.Memo) bool { return !one.Gone }) {
		if err := m.space.check(); err != nil {
			return err
		}
	}
	return m.Store.Remember(ctx, memos)
}

func (s *space) register(r prometheus.Registerer) error {
	for _, gauge := range []prometheus.GaugeFunc{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "etcd_used_bytes",
			Help: "Size of etcd's database, of the fullest member.",
		}, func() float64 { return float64(s.get().Used) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "etcd_quota_bytes",
			Help: "Quota of etcd's database; 0 if etcd does not say.",
		}, func() float64 { return float64(s.get().Quota) }),
	} {
		if err := r.Register(gauge); err != nil {
			return err
		}
	}
	return nil
}
