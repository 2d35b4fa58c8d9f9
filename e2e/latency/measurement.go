package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/e2e/kube"
	"github.com/scriptorium-dev/scriptorium/e2e/sight"
)

// measurement is one run: all ways, at the same time, on one cluster.
type measurement struct {
	cluster *kube.Cluster
	images  kube.Images
	opts    options
	say     func(format string, args ...any)
	board   *board
	fail    context.CancelCauseFunc // ends the run
	running sync.WaitGroup          // what follows pods and watches

	mu      sync.Mutex
	random  *rand.Rand
	samples []sample
	missed  []string // changes that did not come through, and why
	changes int      // begun, of all ways

	followed []kube.Gateway
}

// longest is how much time a change may take: a ConfigMap's needs up to a minute and a
// half, and then some.
const longest = 4 * time.Minute

// follow notes what the pods see until ctx is done.
func (m *measurement) follow(ctx context.Context, pods []kube.Gateway) {
	m.mu.Lock()
	m.followed = append(m.followed, pods...)
	m.mu.Unlock()
	for _, pod := range pods {
		m.running.Go(func() {
			// Once the run has ended, failing changes nothing.
			m.fail(m.cluster.Follow(ctx, pod, func(s sight.Sight) {
				if s.Failure == "" {
					m.board.saw(pod.Node, s.Content, s.At)
				}
			}))
		})
	}
}

// run measures until there are enough changes of each way, and for the duration.
func (m *measurement) run(ctx context.Context, slow, quick []way) {
	ends := time.Now().Add(m.opts.duration)
	more := func(name string) bool {
		return ctx.Err() == nil && (time.Now().Before(ends) || m.count(name) < m.opts.changes)
	}
	var workers sync.WaitGroup
	for _, w := range slow {
		workers.Go(func() {
			// At random, so that changes come at any time between two looks of the kubelet.
			for m.pause(ctx, m.between(0, 90*time.Second)); more(w.name()); m.pause(ctx, m.between(0, 90*time.Second)) {
				m.change(ctx, w)
			}
		})
	}
	workers.Go(func() { m.takeTurns(ctx, quick, more) })
	workers.Wait()
}

// takeTurns changes something by each of the ways, one after the other. A change that
// takes long is left to itself, so that it delays nobody else's.
func (m *measurement) takeTurns(ctx context.Context, ways []way, more func(string) bool) {
	const turn = 3 * time.Second
	var late sync.WaitGroup
	defer late.Wait()
	for again := len(ways) > 0; again; {
		again = false
		for _, w := range ways {
			if !more(w.name()) {
				continue
			}
			again = true
			done := make(chan struct{})
			late.Go(func() { defer close(done); m.change(ctx, w) })
			select {
			case <-done:
			case <-time.After(turn):
			}
			m.pause(ctx, m.between(m.opts.pace/2, m.opts.pace*3/2))
		}
	}
}

func (m *measurement) change(ctx context.Context, w way) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	content := m.content()
	s, err := w.change(ctx, content)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.missed = append(m.missed, fmt.Sprintf("%s, %s: %v", w.name(), content, err))
		m.say("missed: %s, %s: %v", w.name(), content, err)
		return
	}
	m.samples = append(m.samples, s)
	if len(m.samples)%50 == 0 {
		m.say("%d changes", len(m.samples))
	}
}

// content returns one that no other change has.
func (m *measurement) content() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changes++
	return fmt.Sprintf("change-%d-%08x", m.changes, m.random.Uint32())
}

func (m *measurement) count(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, s := range m.samples {
		if s.way == name {
			n++
		}
	}
	return n
}

func (m *measurement) between(low, high time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return low + time.Duration(m.random.Int64N(int64(high-low)))
}

func (m *measurement) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
