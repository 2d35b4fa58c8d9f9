package gate_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/gate"
	"github.com/scriptorium-dev/scriptorium/script"
)

// many are systems of all names, that note what they are asked.
type many struct {
	mu     sync.Mutex
	asked  map[string]int
	now    map[string]int // requests, by source
	most   map[string]int
	answer func(ctx context.Context, q gate.Question) gate.Answer
}

func (m *many) Key(q gate.Question) any { return q.Gate.Source }

func (m *many) Ask(ctx context.Context, q gate.Question) gate.Answer {
	source := q.Gate.Source
	m.mu.Lock()
	m.asked[q.Name.String()]++
	m.now[source]++
	m.most[source] = max(m.most[source], m.now[source])
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.now[source]--
	}()
	return m.answer(ctx, q)
}

func (m *many) times(tenant, name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[tenant+"/"+name]
}

// question is of a script whose gate is the source.
func question(tenant, name, source string) gate.Question {
	return gate.Question{Name: script.Name{Tenant: tenant, Script: name}, Gate: script.Gate{Kind: script.Webhook, Source: source}, Attempt: 1, Step: 1}
}

// asking runs the test with an Asker of systems, for which the sources that hang need ten seconds and
// fail, and others need ten milliseconds.
func asking(t *testing.T, test func(m *many, a *gate.Asker, answers func() int)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &many{asked: map[string]int{}, now: map[string]int{}, most: map[string]int{}}
		m.answer = func(ctx context.Context, q gate.Question) gate.Answer {
			takes, a := 10*time.Millisecond, waits("not yet")
			if q.Gate.Source == "hangs" {
				takes, a = 10*time.Second, fails("it does not answer within 10s")
			}
			select {
			case <-time.After(takes):
			case <-ctx.Done():
				a = fails("canceled")
			}
			return a
		}
		n := 0
		a := gate.NewAsker(m, func(gate.Question, time.Time, gate.Answer) {
			m.mu.Lock()
			defer m.mu.Unlock()
			n++
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { a.Run(ctx) })
		test(m, a, func() int {
			m.mu.Lock()
			defer m.mu.Unlock()
			return n
		})
		cancel()
		running.Wait()
	})
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestManyQuestions: ten thousand of one tenant for a source that hangs delay neither other sources
// nor, by much, another tenant at that one.
func TestManyQuestions(t *testing.T) {
	asking(t, func(m *many, a *gate.Asker, _ func() int) {
		var all []gate.Question
		for i := range 10_000 {
			all = append(all, question("acme", fmt.Sprint("s", i), "hangs"))
		}
		a.Want(all)
		pass(time.Second)
		all = append(all, question("shop", "route", "hangs"), question("shop", "pay", "quick"))
		a.Want(all)
		pass(100 * time.Millisecond)
		if m.times("shop", "pay") != 1 {
			t.Error("the other source is not asked at once")
		}
		pass(12 * time.Second)
		if m.times("shop", "route") != 1 {
			t.Error("the other tenant waits for more than one turn")
		}
		pass(3 * time.Minute)
		if n := m.times("shop", "pay"); n < 15 || n > 25 {
			t.Errorf("the other source was asked %d times in three minutes", n)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.most["hangs"] != 4 || m.most["quick"] != 1 {
			t.Errorf("requests at a time: %v", m.most)
		}
	})
}

// TestAllAreAsked: a source that answers is asked every question, again and again.
func TestAllAreAsked(t *testing.T) {
	asking(t, func(m *many, a *gate.Asker, _ func() int) {
		var all []gate.Question
		for i := range 500 {
			all = append(all, question(fmt.Sprint("t", i%7), fmt.Sprint("s", i), "quick"))
		}
		a.Want(all)
		pass(time.Minute)
		for _, q := range all {
			if n := m.times(q.Name.Tenant, q.Name.Script); n < 4 || n > 8 {
				t.Fatalf("%s was asked %d times in a minute", q.Name, n)
			}
		}
	})
}

// TestPauses: one that does not answer is asked less often; one that is not wanted is not asked, and
// not again at once because it is wanted again.
func TestPauses(t *testing.T) {
	asking(t, func(m *many, a *gate.Asker, answers func() int) {
		broken, fine := question("acme", "broken", "hangs"), question("acme", "fine", "quick")
		a.Want([]gate.Question{broken, fine})
		pass(10 * time.Minute)
		if b, f := m.times("acme", "broken"), m.times("acme", "fine"); b < 8 || b > 14 || f < 50 || f > 75 {
			t.Errorf("asked %d and %d times in ten minutes", b, f)
		}
		a.Want(nil)
		pass(time.Minute)
		before := m.times("acme", "fine")
		pass(time.Hour)
		if n := m.times("acme", "fine"); n != before {
			t.Errorf("asked %d times though nobody wants that", n-before)
		}
		for range 600 { // wanted, and not, and wanted
			a.Want([]gate.Question{fine})
			pass(50 * time.Millisecond)
			a.Want(nil)
			pass(50 * time.Millisecond)
		}
		if n := m.times("acme", "fine") - before; n < 4 || n > 8 {
			t.Errorf("asked %d times in a minute, in which it was wanted now and then", n)
		}
		before = m.times("acme", "broken")
		for range 600 { // each time before it answers
			a.Want([]gate.Question{broken})
			pass(50 * time.Millisecond)
			a.Want(nil)
			pass(50 * time.Millisecond)
		}
		if n := m.times("acme", "broken") - before; n < 4 || n > 8 {
			t.Errorf("asked %d times in a minute, and never waited for", n)
		}
		told := answers()
		next := fine
		next.Step = 2
		a.Want([]gate.Question{next})
		pass(100 * time.Millisecond)
		if answers() != told+1 {
			t.Error("another step is not asked at once")
		}
	})
}

// TestNobodyWaits: the answer to a question that is not wanted any more is not waited for.
func TestNobodyWaits(t *testing.T) {
	asking(t, func(m *many, a *gate.Asker, answers func() int) {
		a.Want([]gate.Question{question("acme", "route", "hangs")})
		pass(time.Second)
		a.Want(nil)
		pass(time.Second)
		m.mu.Lock()
		now := m.now["hangs"]
		m.mu.Unlock()
		if now != 0 || answers() != 0 {
			t.Errorf("%d requests go on, and there were %d answers", now, answers())
		}
	})
}
