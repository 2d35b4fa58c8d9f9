package etcdstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"regexp"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// served is the fleet that the store serves, and whether etcd had it when it was last read.
type served struct {
	mu      sync.Mutex
	fleet   string // "" until it is known
	refusal error
}

func noFleet(format string, args ...any) error {
	return &script.Error{Kind: script.Unavailable, Message: fmt.Sprintf(format, args...), Err: registry.ErrNoFleet}
}

// Fleet implements registry.Store.
func (s *Store) Fleet(ctx context.Context) (string, error) {
	resp, err := s.get(ctx, "read the fleet's identity", s.keys.fleet())
	if err != nil {
		return "", err
	}
	return s.serve(resp.Kvs)
}

// Refusal says why the store does not serve: etcd did not have the fleet when Fleet or
// Snapshot last read it. It is nil if etcd had it.
func (s *Store) Refusal() error {
	s.served.mu.Lock()
	defer s.served.mu.Unlock()
	return s.served.refusal
}

// serve returns the fleet's identity, of which kvs is what etcd has. The first is served
// from then on, and no other.
func (s *Store) serve(kvs []*mvccpb.KeyValue) (string, error) {
	s.served.mu.Lock()
	defer s.served.mu.Unlock()
	found := ""
	if len(kvs) > 0 {
		found = string(kvs[0].Value)
	}
	if s.served.refusal = s.refuse(found); s.served.refusal != nil {
		return "", s.served.refusal
	}
	s.served.fleet = found
	return found, nil
}

func (s *Store) refuse(found string) error {
	prefix, fleet := s.keys.prefix, s.served.fleet
	switch {
	case found == "" && fleet == "":
		return noFleet("no fleet at etcd prefix %s: run `registryd init`, or correct --etcd-prefix", prefix)
	case found == "":
		return noFleet("fleet %s is not at etcd prefix %s: restore etcd, or correct --etcd-prefix; if the data are lost for good, stop the registries, run `registryd init` for a new fleet, and start them without --fleet", fleet, prefix)
	case !fleetIDs.MatchString(found):
		return noFleet("etcd key %s does not hold the id of a fleet: restore it with etcdctl; agents know the id", s.keys.fleet())
	case fleet != "" && found != fleet:
		return noFleet("etcd prefix %s holds fleet %s, and this registry serves fleet %s: restore etcd or correct --etcd-prefix; to serve fleet %s, restart registryd without --fleet",
			prefix, found, fleet, found)
	}
	return nil
}

// serving returns the fleet that the store serves, and reads it if it is not known yet.
func (s *Store) serving(ctx context.Context) (string, error) {
	s.served.mu.Lock()
	fleet := s.served.fleet
	s.served.mu.Unlock()
	if fleet != "" {
		return fleet, nil
	}
	return s.Fleet(ctx)
}

// fleetIDs are those that can be founded.
var fleetIDs = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// Found founds the fleet with the id, or with a random one if that is empty, unless there
// is a fleet already. It returns the fleet that there is then. That it is another one than
// the id names is Invalid.
func (s *Store) Found(ctx context.Context, id string) (fleet string, founded bool, err error) {
	if id != "" && !fleetIDs.MatchString(id) {
		return "", false, script.Errorf(script.Invalid, "--fleet", "%.80q cannot be the id of a fleet: want 1 to 63 letters, digits, '.', '_' and '-'", id)
	}
	made := id
	if made == "" {
		made = rand.Text()
	}
	// Read first: an etcd without space refuses every transaction that may write.
	key := s.keys.fleet()
	resp, err := s.get(ctx, "read the fleet's identity", key)
	if err != nil {
		return "", false, err
	}
	kvs := resp.Kvs
	if len(kvs) == 0 {
		txn, err := s.transact(ctx, "found the fleet",
			[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
			[]clientv3.Op{clientv3.OpPut(key, made)},
			[]clientv3.Op{clientv3.OpGet(key)})
		if err != nil {
			return "", false, err
		}
		if txn.Succeeded {
			return made, true, nil
		}
		kvs = txn.Responses[0].GetResponseRange().GetKvs()
	}
	fleet = string(kvs[0].Value)
	if id != "" && fleet != id {
		return "", false, script.Errorf(script.Invalid, "--fleet", "etcd prefix %s holds fleet %s, not %s: leave --fleet out, or correct --etcd-prefix", s.keys.prefix, fleet, id)
	}
	return fleet, false, nil
}
