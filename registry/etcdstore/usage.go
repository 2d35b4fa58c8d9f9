package etcdstore

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	ledger "github.com/scriptorium-dev/scriptorium/registry/usage"
	"github.com/scriptorium-dev/scriptorium/script"
)

var _ ledger.Store = (*Store)(nil)

// What calls of tenants used has its own part of the keys, which nobody watches:
//
//	hours/<t>/<nn>  scriptorium.registry.v1.UsagePart: of some tenants, in the hour that began at the Unix time t
//	hours/term      of the leader that stores it
func (k keys) hours() string { return k.prefix + "hours/" }

func (k keys) usageTerm() string { return k.hours() + "term" }

// hour sorts before the term.
func (k keys) hour(at time.Time) string { return fmt.Sprintf("%s%012d/", k.hours(), at.Unix()) }

func (k keys) usagePart(at time.Time, number int) string {
	return fmt.Sprintf("%s%02d", k.hour(at), number)
}

// claims is how often a claim is tried that others get in the way of.
const claims = 3

// ClaimUsage implements ledger.Store.
func (s *Store) ClaimUsage(ctx context.Context, term int64) error {
	key := s.keys.usageTerm()
	for range claims {
		resp, err := s.get(ctx, "claim the usage of tenants", key)
		if err != nil {
			return err
		}
		last, revision := int64(0), int64(0)
		if len(resp.Kvs) > 0 {
			revision = resp.Kvs[0].ModRevision
			last, _ = strconv.ParseInt(string(resp.Kvs[0].Value), 10, 64) // what is none holds nobody up
		}
		if last > term {
			return laterLeader(last)
		}
		done, err := s.commit(ctx, "claim the usage of tenants", []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", revision)},
			[]clientv3.Op{clientv3.OpPut(key, strconv.FormatInt(term, 10))}, nil)
		if err != nil || done.Succeeded {
			return err
		}
	}
	return script.Errorf(script.Unavailable, "", "claim the usage of tenants: others do so at the same time")
}

func laterLeader(term int64) error {
	return script.Errorf(script.Conflict, "", "the leader of term %d stores the usage of tenants", term)
}

// writeUsage does it if the term has the claim.
func (s *Store) writeUsage(ctx context.Context, what string, term int64, ops []clientv3.Op) error {
	key := s.keys.usageTerm()
	resp, err := s.commit(ctx, what, []clientv3.Cmp{clientv3.Compare(clientv3.Value(key), "=", strconv.FormatInt(term, 10))}, ops, []clientv3.Op{clientv3.OpGet(key)})
	if err != nil || resp.Succeeded {
		return err
	}
	last := int64(0)
	if kvs := resp.Responses[0].GetResponseRange().GetKvs(); len(kvs) > 0 {
		last, _ = strconv.ParseInt(string(kvs[0].Value), 10, 64)
	}
	return laterLeader(last)
}

// PutUsage implements ledger.Store.
func (s *Store) PutUsage(ctx context.Context, term int64, parts []ledger.Part) error {
	ops := make([]clientv3.Op, 0, len(parts))
	for _, p := range parts {
		m := &registryv1.UsagePart{}
		for _, u := range p.Tenants {
			m.Tenants = append(m.Tenants, wire.FromTenantUsage(u))
		}
		value, err := proto.Marshal(m)
		if err != nil {
			return script.Errorf(script.Internal, "", "encode the usage of tenants: %w", err)
		}
		ops = append(ops, clientv3.OpPut(s.keys.usagePart(p.Hour, p.Number), string(value)))
	}
	return s.writeUsage(ctx, "store the usage of tenants", term, ops)
}

// PurgeUsage implements ledger.Store.
func (s *Store) PurgeUsage(ctx context.Context, term int64, before time.Time) error {
	return s.writeUsage(ctx, "purge the usage of tenants", term, []clientv3.Op{clientv3.OpDelete(s.keys.hour(time.Unix(0, 0)), clientv3.WithRange(s.keys.hour(before)))})
}

// Usage implements ledger.Store. What cannot be read is left out.
func (s *Store) Usage(ctx context.Context, from, until time.Time, number int) iter.Seq2[ledger.Part, error] {
	if number >= 0 {
		return s.usageOfPart(ctx, from, until, number)
	}
	return func(yield func(ledger.Part, error) bool) {
		for kv, err := range s.pages(ctx, "read the usage of tenants", s.keys.hour(from), now, clientv3.WithRange(s.keys.hour(until))) {
			if err != nil {
				yield(ledger.Part{}, err)
				return
			}
			if part, ok := s.decodeUsage(string(kv.Key), kv.Value); ok && !yield(part, nil) {
				return
			}
		}
	}
}

// hoursAtOnce are read of one part at a time.
const hoursAtOnce = 100

// usageOfPart reads the keys of one part alone.
func (s *Store) usageOfPart(ctx context.Context, from, until time.Time, number int) iter.Seq2[ledger.Part, error] {
	return func(yield func(ledger.Part, error) bool) {
		for from.Before(until) {
			var ops []clientv3.Op
			for ; from.Before(until) && len(ops) < hoursAtOnce; from = from.Add(time.Hour) {
				ops = append(ops, clientv3.OpGet(s.keys.usagePart(from, number)))
			}
			resp, err := s.commit(ctx, "read the usage of a tenant", nil, ops, nil)
			if err != nil {
				yield(ledger.Part{}, err)
				return
			}
			for _, r := range resp.Responses {
				for _, kv := range r.GetResponseRange().GetKvs() {
					if part, ok := s.decodeUsage(string(kv.Key), kv.Value); ok && !yield(part, nil) {
						return
					}
				}
			}
		}
	}
}

func (s *Store) decodeUsage(key string, value []byte) (part ledger.Part, ok bool) {
	at, number, _ := strings.Cut(strings.TrimPrefix(key, s.keys.hours()), "/")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return part, false
	}
	if part.Number, err = strconv.Atoi(number); err != nil || part.Number < 0 || part.Number >= ledger.Parts {
		return part, false
	}
	var m registryv1.UsagePart
	if proto.Unmarshal(value, &m) != nil {
		return part, false
	}
	part.Hour = time.Unix(seconds, 0).UTC()
	for _, one := range m.GetTenants() {
		if u, err := wire.ToTenantUsage(one); err == nil {
			part.Tenants = append(part.Tenants, u)
		}
	}
	return part, true
}
