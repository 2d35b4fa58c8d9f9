package registryd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/etcdstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Found founds the fleet of an etcd, with the id of cfg.Fleet or with a random one, unless
// there is a fleet. It returns the fleet that there is then. That it is another one than
// cfg.Fleet is Invalid. Of cfg it needs what is about etcd.
func Found(ctx context.Context, cfg Config) (fleet string, founded bool, err error) {
	security, err := cfg.Security.etcd(cfg.EtcdEndpoints, nil, cfg.Log)
	if err != nil {
		return "", false, err
	}
	store, err := etcdstore.Open(etcdstore.Config{Endpoints: cfg.EtcdEndpoints, Prefix: cfg.EtcdPrefix, Security: security})
	if err != nil {
		return "", false, err
	}
	err = awaitEtcd(ctx, cfg, func(ctx context.Context) (err error) {
		fleet, founded, err = store.Found(ctx, cfg.Fleet)
		return err
	})
	return fleet, founded, errors.Join(err, store.Close())
}

// awaitEtcd calls do until etcd has answered.
func awaitEtcd(ctx context.Context, cfg Config, do func(context.Context) error) error {
	wait := cfg.EtcdWait
	if wait == 0 {
		wait = 30 * time.Second
	}
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		err := do(bounded)
		if err == nil || errors.Is(err, registry.ErrNoFleet) || script.KindOf(err) != script.Unavailable {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if bounded.Err() != nil {
			return fmt.Errorf("gave up on etcd after %v: %w", wait, err)
		}
		cfg.Log.Warn("etcd cannot be reached yet", "error", err)
		select {
		case <-time.After(500 * time.Millisecond):
		case <-bounded.Done():
		}
	}
}

// lookInterval is how often a registry without a fleet looks for one.
const lookInterval = time.Second

// awaitFleet waits until somebody has founded a fleet, and begins to serve it.
func (d *Daemon) awaitFleet(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		fleet, err := d.store.Fleet(ctx)
		if err == nil {
			close(d.founded)
			if err = d.begin(ctx); err == nil {
				d.log.Info("serving a fleet that was founded meanwhile", "fleet", fleet)
			}
			return // after an error, the registry stops
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// begin waits until everything is read that calls need, and opens the gate for them.
func (d *Daemon) begin(ctx context.Context) error {
	// What is written from now on is to become an event at once, and reports count
	// once the releases are known.
	if err := errors.Join(d.mirror.Reached(ctx, 0), d.fleet.Reached(ctx, 0)); err != nil {
		return script.Errorf(script.Unavailable, "", "the releases were not read in time: %w", err)
	}
	select { // agents that other replicas know of are the fleet too
	case <-d.fleet.Recalled():
	case <-ctx.Done():
		return script.Errorf(script.Unavailable, "", "what the replicas know of the fleet was not read in time: %w", ctx.Err())
	}
	if err := d.sessions.Load(ctx); err != nil {
		d.log.Warn("agents that pull have no sessions yet, so that their status is not believed", "error", err)
	}
	d.fan.RollCall(d.mirror.Fleet())
	d.begun.Store(true)
	d.server.UpdateHealth()
	return nil
}

// Unavailable says why no call can be answered now; nil if calls can be.
func (d *Daemon) Unavailable() error {
	if err := d.store.Refusal(); err != nil {
		return err
	}
	if !d.begun.Load() {
		return script.Errorf(script.Unavailable, "", "the registry is reading etcd: try again")
	}
	return nil
}
