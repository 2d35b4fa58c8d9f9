package fleet

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Memory keeps what the replicas of a registry tell alike, and what none of them
// may forget when it is started anew. It holds one Memo of each agent and of each
// script. Errors are those of a registry.Store.
type Memory interface {
	// Remember stores at most MaxMemos, each in place of the last of its kind, and
	// removes those that are Gone.
	Remember(ctx context.Context, memos []Memo) error
	// Recall yields every memo there is, then one that is Complete and nothing else,
	// and then each that changes, until ctx is done or an error ends it.
	Recall(ctx context.Context) iter.Seq2[Memo, error]
}

// MaxMemos are stored at a time.
const MaxMemos = 64

// Memo is of an agent if Agent is not empty, and else of a script.
type Memo struct {
	// Agent was heard of: Report is the last that it said, with MaxAgentFailures at
	// most, and Heard when; that is the zero Time if it was connected then.
	Agent  string
	Report Report
	Heard  time.Time
	// Script is how it came to its release.
	Script  script.Name
	Rollout script.Rollout
	// Gate is what the gate of its candidate said last, in place of Rollout; nil if the memo is of
	// something else.
	Gate *GateAnswer
	// Gone: the agent left, or the script was deleted long ago.
	Gone     bool
	Complete bool
}

// memory is what the fleet knows of its Memory, and what it has noted that is not
// yet there.
type memory struct {
	rollouts     map[script.Name]*script.Rollout
	agents       map[string]stored
	notedScripts map[script.Name]time.Time
	notedAgents  map[string]time.Time
	gates        gateMemory
	noted        chan struct{} // has room for one
	bytes        int           // of all agents' memos
	budget       float64       // bytes of agents' memos that can be stored now
	budgetAt     time.Time
	recalled     chan struct{} // closed once everything was recalled
}

// stored is what the memory has of an agent.
type stored struct {
	essence
	size int
	at   time.Time // when this replica stored it, or learned of it
}

// essence is what a memo of an agent is stored for.
type essence struct {
	fleet                         string
	incarnation                   string
	identity                      string
	connected                     bool
	selects, sets, byKey, shadows bool // see Report

	keys string // that its disk is signed by: they must stay trusted though it is away
}

func essenceOf(r *Report, connected bool) essence {
	return essence{fleet: r.Fleet, incarnation: r.Incarnation, identity: r.Identity, connected: connected, selects: r.Selects, sets: r.Sets, byKey: r.Keys, shadows: r.Shadows, keys: strings.Join(r.DiskKeys, " ")}
}

// Bounds of what agents make the replicas store. Where they are met, a replica that starts does
// not know of some agents until it hears them.
const (
	memoApart  = 10 * time.Second // between two memos of an agent
	memoBurst  = 16 << 20         // bytes that are stored at once, about,
	memoRate   = 16 << 10         // and each second from then on
	memoReason = 200              // bytes of why an agent failed
)

// size is about how many bytes the memo of an agent takes.
func (m *Memo) size() int {
	r := &m.Report
	size := 64 + 2*len(m.Agent) + len(r.Fleet) + len(r.Identity) + len(r.Incarnation) + len(r.Software) + len(r.Tenants.String()) + len(strings.Join(r.DiskKeys, "  "))
	for key, value := range r.Labels {
		size += len(key) + len(value) + 8
	}
	for _, f := range r.Failures {
		size += len(f.Name.Tenant) + len(f.Name.Script) + len(f.Err.Message) + len(f.Err.Field) + 32
	}
	return size
}

// tooSoon reports whether the last memo of the agent was stored too short a time ago.
func (f *Fleet) tooSoon(m *Memo) bool {
	known, ok := f.memory.agents[m.Agent]
	return ok && !m.Gone && f.now().Sub(known.at) < memoApart
}

// agentNotes appends the notes on agents that are due, if the store takes any now.
func (f *Fleet) agentNotes(memos []Memo, due time.Time) []Memo {
	now, mem := f.now(), &f.memory
	mem.budget = min(memoBurst, mem.budget+max(0, now.Sub(mem.budgetAt).Seconds())*memoRate)
	mem.budgetAt = now
	if mem.budget <= 0 {
		return memos
	}
	others := len(memos)
	memos = takeNotes(memos, mem.notedAgents, due, f.agentMemo, f.tooSoon)
	for i := range memos[others:] {
		m := &memos[others+i]
		if m.Gone {
			continue
		}
		size, known := m.size(), mem.agents[m.Agent]
		mem.budget -= float64(size)
		mem.bytes += size - known.size // as if the memory had it: that comes later
		known.size, known.at = size, now
		mem.agents[m.Agent] = known
	}
	return memos
}

func newMemory() memory {
	return memory{
		rollouts:     map[script.Name]*script.Rollout{},
		agents:       map[string]stored{},
		notedScripts: map[script.Name]time.Time{},
		notedAgents:  map[string]time.Time{},
		gates:        newGateMemory(),
		noted:        make(chan struct{}, 1),
		budget:       memoBurst,
		recalled:     make(chan struct{}),
	}
}

func (m *memory) forget() {
	clear(m.rollouts)
	clear(m.agents)
	clear(m.notedScripts)
	clear(m.notedAgents)
	m.gates = newGateMemory()
	m.bytes = 0
}

func (m *memory) wake() {
	select {
	case m.noted <- struct{}{}:
	default: // it is awake
	}
}

// note says that the memory of the agent may have to change.
func (f *Fleet) note(agent string) {
	if _, ok := f.memory.notedAgents[agent]; !ok {
		f.memory.notedAgents[agent] = f.now()
		f.memory.wake()
	}
}

// noteRollout says that the memory of the script may have to change.
func (f *Fleet) noteRollout(name script.Name) {
	if _, ok := f.memory.notedScripts[name]; !ok {
		f.memory.notedScripts[name] = f.now()
		f.memory.wake()
	}
}

// rollout is what is remembered of the release.
func (m *memory) rollout(name script.Name, revision script.Revision) *script.Rollout {
	if r := m.rollouts[name]; r != nil && r.Revision == revision {
		return r
	}
	return nil
}

// Recalled is closed once Keep has recalled everything for the first time.
func (f *Fleet) Recalled() <-chan struct{} { return f.memory.recalled }

// Pauses of Keep.
const (
	keepInterval = 250 * time.Millisecond // between two looks at whether this replica leads
	keepPause    = time.Second            // after an error
	keepTimeout  = 5 * time.Second        // of one write
	// keepPatience is how long a replica leaves it to the one that leads: that one
	// may have been started anew, and know less.
	keepPatience = 5 * time.Second
)

// Keep recalls what m holds and remembers there what this fleet finds out: at once
// while leading says that this replica is the one to do so, and otherwise what the
// other did not. It returns when ctx is done.
func (f *Fleet) Keep(ctx context.Context, m Memory, leading func() bool, log *slog.Logger) {
	if f.Reached(ctx, 0) != nil {
		return // ctx is done
	}
	var recalling sync.WaitGroup
	defer recalling.Wait()
	recalling.Go(func() {
		for ctx.Err() == nil {
			err := f.recall(ctx, m)
			if ctx.Err() == nil {
				log.Warn("the memory of the fleet is recalled again", "error", err, "pause", keepPause)
				pause(ctx, keepPause)
			}
		}
	})
	select {
	case <-f.Recalled():
	case <-ctx.Done():
		return
	}
	ticker := time.NewTicker(keepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-f.memory.noted:
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		patience := keepPatience
		if leading() {
			patience = 0
		}
		if err := f.remember(ctx, m, patience); err != nil && ctx.Err() == nil {
			log.Warn("what the fleet found out is not remembered yet", "error", err, "pause", keepPause)
			pause(ctx, keepPause)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// remember stores all that was noted so long ago.
func (f *Fleet) remember(ctx context.Context, m Memory, patience time.Duration) error {
	for {
		memos := f.notes(patience)
		if len(memos) == 0 {
			return nil
		}
		bounded, cancel := context.WithTimeout(ctx, keepTimeout)
		err := m.Remember(bounded, memos)
		cancel()
		if err != nil {
			f.noteAgain(memos, patience)
			return err
		}
		// What the memory has now is for Recall to tell: another replica may have
		// written in the meantime.
	}
}

// noteAgain takes back memos that were not stored.
func (f *Fleet) noteAgain(memos []Memo, patience time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	due := f.now().Add(-patience)
	for i := range memos {
		switch m := &memos[i]; {
		case m.Agent != "":
			f.memory.notedAgents[m.Agent] = due
		case m.Gate != nil:
			f.memory.gates.noted[m.Script] = due
		default:
			f.memory.notedScripts[m.Script] = due
		}
	}
}

// notes takes some of the memos to store; it returns none when there are no more.
func (f *Fleet) notes(patience time.Duration) []Memo {
	f.mu.Lock()
	defer f.mu.Unlock()
	due := f.now().Add(-patience)
	memos := takeNotes(nil, f.memory.notedScripts, due, f.rolloutMemo, func(*Memo) bool { return false })
	return f.gateNotes(f.agentNotes(memos, due), due)
}

// takeNotes appends, up to MaxMemos, the memos of what was noted until due and need
// not wait. It forgets the notes of these, and of what needs no storing any more.
func takeNotes[K comparable](memos []Memo, noted map[K]time.Time, due time.Time, memoOf func(K) (Memo, bool), mustWait func(*Memo) bool) []Memo {
	for of, at := range noted {
		if len(memos) == MaxMemos {
			break
		}
		memo, ok := memoOf(of)
		if ok && (at.After(due) || mustWait(&memo)) {
			continue
		}
		delete(noted, of)
		if ok {
			memos = append(memos, memo)
		}
	}
	return memos
}

// rolloutMemo returns the memo to store of the script, if there is one.
func (f *Fleet) rolloutMemo(name script.Name) (Memo, bool) {
	known, p := f.memory.rollouts[name], f.scripts[name]
	switch {
	case p == nil:
		return Memo{Script: name, Gone: true}, known != nil
	case p.rollout == nil || known != nil && known.Revision == p.rollout.Revision:
		return Memo{}, false
	}
	return Memo{Script: name, Rollout: *p.rollout}, true
}

// agentMemo returns the memo to store of the agent, if there is one.
func (f *Fleet) agentMemo(name string) (Memo, bool) {
	known, ok := f.memory.agents[name]
	a := f.agents[name]
	switch {
	case a == nil || f.expired(a, f.now()):
		return Memo{Agent: name, Gone: true}, ok
	case a.remembered || ok && known.essence == essenceOf(&a.report, !a.unknown):
		return Memo{}, false
	}
	memo := Memo{Agent: name, Report: a.report}
	memo.Report.Failures = a.someFailures()
	for i := range memo.Report.Failures {
		memo.Report.Failures[i].Err = shortened(memo.Report.Failures[i].Err)
	}
	if a.unknown {
		memo.Heard = a.heard.UTC()
	}
	return memo, f.memory.bytes-known.size+memo.size() <= f.cfg.MaxMemory
}

// shortened returns the error with so much of its message as is remembered.
func shortened(err *script.Error) *script.Error {
	short := *err
	short.Message = strings.ToValidUTF8(short.Message[:min(len(short.Message), memoReason)], "")
	short.Field = strings.ToValidUTF8(short.Field[:min(len(short.Field), memoReason)], "")
	return &short
}

// someFailures returns at most MaxAgentFailures, by the scripts' names.
func (a *agent) someFailures() []Failure {
	failures := make([]Failure, 0, min(len(a.failures), MaxAgentFailures+1))
	for _, failure := range a.failures {
		i, _ := slices.BinarySearchFunc(failures, failure, func(a, b Failure) int { return cmp.Compare(a.Name.String(), b.Name.String()) })
		failures = slices.Insert(failures, i, failure)
		failures = failures[:min(len(failures), MaxAgentFailures)]
	}
	return failures
}

// keep notes what the Memory has, as of now.
func (m *memory) keep(memo *Memo, now time.Time) {
	m.bytes -= m.agents[memo.Agent].size
	switch {
	case memo.Agent != "" && memo.Gone:
		delete(m.agents, memo.Agent)
	case memo.Agent != "":
		size := memo.size()
		m.agents[memo.Agent] = stored{essence: essenceOf(&memo.Report, memo.Heard.IsZero()), size: size, at: now}
		m.bytes += size
	case memo.Gone:
		delete(m.rollouts, memo.Script)
	default:
		rollout := memo.Rollout
		m.rollouts[memo.Script] = &rollout
	}
}

// recall takes in what m yields until that ends.
func (f *Fleet) recall(ctx context.Context, m Memory) error {
	agents, scripts, gates := map[string]bool{}, map[script.Name]bool{}, map[script.Name]bool{}
	complete := false
	for memo, err := range m.Recall(ctx) {
		switch {
		case err != nil:
			return err
		case memo.Complete:
			f.recalledAll(agents, scripts, gates)
			complete = true
			continue
		case !complete && memo.Gate != nil:
			gates[memo.Script] = true
		case !complete:
			agents[memo.Agent], scripts[memo.Script] = true, true
		}
		f.mu.Lock()
		f.recalled(&memo)
		f.mu.Unlock()
	}
	return fmt.Errorf("the memory ended: %w", context.Cause(ctx))
}

// recalledAll says that there is nothing but of these agents, scripts and gates.
func (f *Fleet) recalledAll(agents map[string]bool, scripts, gates map[script.Name]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.memory.agents {
		if !agents[name] {
			f.recalled(&Memo{Agent: name, Gone: true})
		}
	}
	for name := range f.memory.rollouts {
		if !scripts[name] {
			f.recalled(&Memo{Script: name, Gone: true})
		}
	}
	for name := range f.memory.gates.known {
		if !gates[name] {
			f.recalled(&Memo{Script: name, Gate: &GateAnswer{}, Gone: true})
		}
	}
	select {
	case <-f.memory.recalled:
	default:
		close(f.memory.recalled)
	}
}

// recalled takes in one memo.
func (f *Fleet) recalled(memo *Memo) {
	if memo.Gate != nil {
		f.keepGate(memo)
		return
	}
	f.memory.keep(memo, f.now())
	if memo.Agent == "" {
		p := f.scripts[memo.Script]
		if p != nil && !memo.Gone && p.release.Revision == memo.Rollout.Revision {
			p.rollout = f.memory.rollouts[memo.Script]
			f.touch()
		}
		return
	}
	a := f.agents[memo.Agent]
	switch {
	case memo.Gone && a != nil && a.unknown:
		f.gone(a, f.now())
		f.forget(a)
	case memo.Gone && a != nil:
		f.note(memo.Agent) // it is here: the leader finds out, or we are
	case memo.Gone:
		return
	case a != nil && !a.remembered: // heard here, which says more
		f.endedBefore(a, memo)
		return
	case memo.Report.Fleet != "" && memo.Report.Fleet != f.id:
		f.note(memo.Agent) // registries left it that served the fleet before: it goes
		return
	case a == nil && f.departed[memo.Report.speaker()].incarnation == memo.Report.Incarnation:
		f.note(memo.Agent) // it left meanwhile
		return
	default:
		if a == nil {
			a = f.newAgent(memo.Agent)
		}
		f.reminded(a, memo)
	}
	f.settle(f.now())
	f.touch()
}

// reminded makes the agent one that this fleet has not heard itself.
func (f *Fleet) reminded(a *agent, memo *Memo) {
	now := f.now()
	heard := memo.Heard
	if heard.IsZero() || heard.After(now) {
		heard = now // since nobody here listened
	}
	if a.report.Incarnation != "" && a.report.Incarnation != memo.Report.Incarnation {
		f.ended(a)
	}
	f.identify(a, memo.Report.Identity, memo.Report.size())
	f.join(a, memo.Report.Tenants)
	a.take(memo.Report, heard)
	a.report.Agent, f.labelings = memo.Agent, f.labelings+1
	a.failures, a.remembered = latestFailures(memo.Report.Failures), true
	a.remind(memo.Heard.IsZero())
	f.expect(a, memo.Heard.IsZero())
}
