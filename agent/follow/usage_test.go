package follow_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/callstats"
	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/agent/meter"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
)

// tenants are those of an agent: each second there is a call of one. The agent reports through it, while it is not away.
type tenants struct {
	follow.Reporter
	t *testing.T

	mu      sync.Mutex
	began   time.Time
	taken   uint64
	idle    bool
	away    bool
	told    []*eventv1.Usage
	calls   map[uint64]uint64 // that were told, by sequence
	leaving bool
}

func (m *tenants) take(most int) []callstats.TenantUse {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls := uint64(time.Since(m.began).Seconds()) - m.taken
	if calls == 0 || m.idle {
		return nil
	}
	if most != 200 {
		m.t.Errorf("the agent tells of %d tenants", most)
	}
	m.taken += calls
	return []callstats.TenantUse{{Tenant: "acme", Use: meter.Use{Calls: calls, Errors: 1, Ran: time.Second, Instructions: 2, In: 3, Out: 4}}}
}

func (m *tenants) Report(ctx context.Context, s *eventv1.Status, in seal.Session) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return errors.New("away")
	}
	if u := s.GetUsage(); u != nil {
		m.told = append(m.told, u)
		calls := u.GetTenants()[0].GetCalls()
		if before, ok := m.calls[u.GetSequence()]; ok != u.GetRepeated() || ok && before != calls {
			m.t.Errorf("usage %d has %d calls, and had %d; it is repeated: %v", u.GetSequence(), calls, before, u.GetRepeated())
		}
		m.calls[u.GetSequence()] = calls
		m.leaving = s.GetLeaving()
	}
	return m.Reporter.Report(ctx, s, in)
}

// sum returns how many calls were told, and in how many statuses.
func (m *tenants) sum() (calls uint64, told int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.calls {
		calls += n
	}
	return calls, len(m.told)
}

// simulateUsage runs a node whose tenants call.
func simulateUsage(t *testing.T, do func(w *world, m *tenants, stop func())) {
	t.Helper()
	simulateRuns(t, (*world).unsigned, func(ctx context.Context, w *world, n *node) {
		m := &tenants{t: t, Reporter: n, began: time.Now(), calls: map[uint64]uint64{}}
		cfg := n.config(1)
		cfg.Usage, cfg.Reporter = m.take, m
		f, err := follow.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(ctx)
		ended := make(chan error)
		go func() { ended <- f.Run(ctx) }()
		stopped := false
		stop := func() {
			if !stopped {
				stopped = true
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
		}
		do(w, m, stop)
		stop()
	})
}

// TestUsageIsToldSeveralTimes: each minute's in three statuses that are apart, all of it when the agent leaves.
func TestUsageIsToldSeveralTimes(t *testing.T) {
	simulateUsage(t, func(w *world, m *tenants, stop func()) {
		pass(59 * time.Second)
		if _, told := m.sum(); told != 0 {
			t.Errorf("told %d times in less than a minute", told)
		}
		for range 10 {
			pass(time.Minute)
			for range 20 { // each makes a status
				w.commit(map[string]string{"a": "text"})
				pass(100 * time.Millisecond)
			}
		}
		calls, told := m.sum()
		m.mu.Lock()
		n, covers, processors := len(m.calls), m.told[5].GetCovers().AsDuration(), m.told[5].GetProcessors()
		m.mu.Unlock()
		if n < 10 || n > 11 || told > 3*n || told < 3*n-2 || calls < 600 {
			t.Errorf("told %d calls as %d usages in %d statuses, of 11 minutes with one each second", calls, n, told)
		}
		if covers < time.Minute || covers > 66*time.Second || processors == 0 {
			t.Errorf("a usage covers %v, of %d processors", covers, processors)
		}
		pass(20 * time.Second)
		stop()
		if calls, _ := m.sum(); calls != m.taken || calls != uint64(time.Since(m.began).Seconds()) || !m.leaving {
			t.Errorf("told %d calls of %v until the agent left; the last status says so: %v", calls, time.Since(m.began), m.leaving)
		}
	})
}

// TestUsageWaitsForTheRegistry: what is used while nobody can hear of it is told later, once.
func TestUsageWaitsForTheRegistry(t *testing.T) {
	simulateUsage(t, func(w *world, m *tenants, _ func()) {
		pass(65 * time.Second)
		before, _ := m.sum()
		m.mu.Lock()
		m.away = true // NATS is
		m.mu.Unlock()
		pass(30 * time.Minute)
		m.mu.Lock()
		m.away = false
		m.mu.Unlock()
		pass(3 * time.Minute)
		middle, _ := m.sum()
		if middle < before+30*60 {
			t.Errorf("told %d calls, %d before NATS was away for half an hour", middle, before)
		}
		w.set(faults{down: true, silent: true}) // the registry is, but NATS takes statuses
		pass(20 * time.Second)
		_, told := m.sum()
		pass(time.Hour)
		if _, more := m.sum(); more != told {
			t.Errorf("told usage in %d statuses that nobody hears", more-told)
		}
		w.set(faults{})
		pass(2 * time.Minute)
		if after, _ := m.sum(); after < middle+3600 {
			t.Errorf("told %d calls, %d before the registry was away for an hour", after, middle)
		}
	})
}

func TestNoUsageIsToldOfNoCalls(t *testing.T) {
	simulateUsage(t, func(_ *world, m *tenants, stop func()) {
		m.mu.Lock()
		m.idle = true
		m.mu.Unlock()
		pass(time.Hour)
		stop()
		if _, told := m.sum(); told != 0 {
			t.Errorf("told %d times that nothing was used", told)
		}
	})
}
