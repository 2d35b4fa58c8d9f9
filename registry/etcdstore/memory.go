package etcdstore

import (
	"context"
	"iter"
	"strings"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

var _ fleet.Memory = (*Store)(nil)

// The memory of the fleet has its own part of the keys:
//
//	fleet/agents/<name>             scriptorium.event.v1.Status: the last that was
//	                                heard of the agent, with sent_at as the time when;
//	                                without it while the agent is connected
//	fleet/rollouts/<tenant>/<name>  scriptorium.registry.v1.Rollout
//	fleet/gates/<tenant>/<name>     scriptorium.registry.v1.GateAnswer
func (k keys) memory() string { return k.prefix + "fleet/" }

func (k keys) agents() string { return k.memory() + "agents/" }

func (k keys) rollouts() string { return k.memory() + "rollouts/" }

func (k keys) gates() string { return k.memory() + "gates/" }

// rememberBytes are stored at a time: etcd takes 1.5 MiB.
const rememberBytes = 512 << 10

// Remember implements fleet.Memory.
func (s *Store) Remember(ctx context.Context, memos []fleet.Memo) error {
	var ops []clientv3.Op
	bytes := 0
	for i := range memos {
		key, value, err := s.encodeMemo(&memos[i])
		if err != nil {
			return script.Errorf(script.Internal, "", "the memory at %s cannot be encoded: %w", key, err)
		}
		op := clientv3.OpPut(key, string(value))
		if memos[i].Gone {
			op = clientv3.OpDelete(key)
		}
		ops, bytes = append(ops, op), bytes+len(key)+len(value)
		if bytes < rememberBytes && i < len(memos)-1 {
			continue
		}
		if _, err := s.commit(ctx, "remember the fleet", nil, ops, nil); err != nil {
			return err
		}
		ops, bytes = nil, 0
	}
	return nil
}

// Recall implements fleet.Memory. What cannot be read is left out: it is written
// anew when it changes.
func (s *Store) Recall(ctx context.Context) iter.Seq2[fleet.Memo, error] {
	return func(yield func(fleet.Memo, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		head, err := s.get(ctx, "recall the fleet", s.keys.head(), clientv3.WithKeysOnly())
		if err != nil {
			yield(fleet.Memo{}, err)
			return
		}
		at := head.Header.Revision
		for kv, err := range s.pages(ctx, "recall the fleet", s.keys.memory(), at) {
			if err != nil {
				yield(fleet.Memo{}, err)
				return
			}
			if memo, ok := s.decodeMemo(string(kv.Key), kv.Value); ok && !yield(memo, nil) {
				return
			}
		}
		if !yield(fleet.Memo{Complete: true}, nil) {
			return
		}
		updates := s.client.Watch(clientv3.WithRequireLeader(ctx), s.keys.memory(), clientv3.WithPrefix(), clientv3.WithRev(at+1))
		for resp := range updates {
			if err := resp.Err(); err != nil {
				yield(fleet.Memo{}, s.failure(ctx, "watch the memory of the fleet", err))
				return
			}
			for _, event := range resp.Events {
				memo, ok := s.decodeMemo(string(event.Kv.Key), event.Kv.Value)
				memo.Gone = event.Type == clientv3.EventTypeDelete
				if ok && !yield(memo, nil) {
					return
				}
			}
		}
	}
}

func (s *Store) encodeMemo(m *fleet.Memo) (key string, value []byte, err error) {
	if m.Gate != nil {
		value, err = proto.Marshal(&registryv1.GateAnswer{
			Attempt: m.Gate.Attempt, Step: int32(m.Gate.Step), AskedAt: timestamppb.New(m.Gate.At), Result: string(m.Gate.Result), Text: m.Gate.Text, //nolint:gosec // at most MaxSteps
		})
		return s.keys.gates() + m.Script.String(), value, err
	}
	if m.Agent == "" {
		value, err = proto.Marshal(wire.FromRollout(m.Rollout))
		return s.keys.rollouts() + m.Script.String(), value, err
	}
	r := &m.Report
	status := &eventv1.Status{
		Fleet: r.Fleet, Agent: r.Agent, Incarnation: r.Incarnation, Sequence: r.Sequence, Labels: r.Labels, Software: r.Software,
		ActivatedRevision: int64(r.Activated), Tenants: r.Tenants.Globs(), DiskKeys: r.DiskKeys, Drifts: r.Drifts,
		SessionNumber: int64(r.Session), Identity: r.Identity, KnowsSelectors: r.Selects, KnowsChangeSets: r.Sets, KnowsKeys: r.Keys, KnowsShadows: r.Shadows,
		KnowsQueries: r.Queries,
	}
	if !m.Heard.IsZero() {
		status.SentAt = timestamppb.New(m.Heard)
	}
	for _, failure := range r.Failures {
		status.Failures = append(status.Failures, &eventv1.Failure{
			Key: failure.Name.String(), Revision: int64(failure.Revision), Error: wire.FromError(failure.Err),
		})
	}
	value, err = proto.Marshal(status)
	return s.keys.agents() + m.Agent, value, err
}

// decodeMemo reads what is stored; nothing, of a key that was removed.
func (s *Store) decodeMemo(key string, value []byte) (fleet.Memo, bool) {
	if agent, ok := strings.CutPrefix(key, s.keys.agents()); ok {
		var m eventv1.Status
		if agent == "" || !utf8.ValidString(agent) || proto.Unmarshal(value, &m) != nil {
			return fleet.Memo{}, false
		}
		return agentMemo(agent, &m)
	}
	if path, ok := strings.CutPrefix(key, s.keys.gates()); ok {
		return gateMemo(path, value)
	}
	path, ok := strings.CutPrefix(key, s.keys.rollouts())
	if !ok {
		return fleet.Memo{}, false
	}
	name, err := script.ParseName(path)
	var m registryv1.Rollout
	if err != nil || proto.Unmarshal(value, &m) != nil {
		return fleet.Memo{}, false
	}
	rollout, ok := wire.ToRollout(&m)
	return fleet.Memo{Script: name, Rollout: rollout}, ok
}

func gateMemo(path string, value []byte) (fleet.Memo, bool) {
	name, err := script.ParseName(path)
	var m registryv1.GateAnswer
	if err != nil || proto.Unmarshal(value, &m) != nil {
		return fleet.Memo{}, false
	}
	return fleet.Memo{Script: name, Gate: &fleet.GateAnswer{
		Attempt: m.GetAttempt(), Step: int(m.GetStep()), At: m.GetAskedAt().AsTime(), Result: fleet.GateResult(m.GetResult()), Text: m.GetText(),
	}}, true
}

func agentMemo(agent string, m *eventv1.Status) (fleet.Memo, bool) {
	tenants, err := script.ParseSelector(m.GetTenants())
	if err != nil {
		return fleet.Memo{}, false
	}
	memo := fleet.Memo{Agent: agent, Report: fleet.Report{
		Fleet: m.GetFleet(), Agent: agent, Incarnation: m.GetIncarnation(), Sequence: m.GetSequence(), Labels: m.GetLabels(),
		Software: m.GetSoftware(), Activated: script.Revision(m.GetActivatedRevision()), Tenants: tenants,
		DiskKeys: m.GetDiskKeys(), Drifts: m.GetDrifts(), Session: script.Revision(m.GetSessionNumber()), Identity: m.GetIdentity(),
		Selects: m.GetKnowsSelectors(), Sets: m.GetKnowsChangeSets(), Keys: m.GetKnowsKeys(), Shadows: m.GetKnowsShadows(), Queries: m.GetKnowsQueries(),
	}}
	if m.GetSentAt() != nil {
		memo.Heard = m.GetSentAt().AsTime()
	}
	for _, f := range m.GetFailures() {
		name, err := fleet.ParseFailureName(f.GetKey())
		if err != nil || f.GetError() == nil {
			return fleet.Memo{}, false
		}
		memo.Report.Failures = append(memo.Report.Failures, fleet.Failure{
			Name: name, Revision: script.Revision(f.GetRevision()), Err: wire.ToError(f.GetError()),
		})
	}
	return memo, true
}
