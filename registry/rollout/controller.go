// Package rollout takes candidates through their tests and steps.
//
// What is to become of a candidate follows from its release and from what the fleet says
// of it alone, so that any replica of a registry can go on where another one left off. One
// of them does, the leader; if two do for a moment, the registry takes what comes first.
package rollout

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/gate"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Fleet says how far candidates have come. A fleet.Fleet does.
type Fleet interface {
	// Changed returns what is closed at the next change.
	Changed() <-chan struct{}
	// Candidacies returns those of all candidates that are on their way.
	Candidacies() []fleet.Candidacy
	// Buckets returns the candidacy of the script, with the buckets of its followers in
	// order; ok is false if there is none.
	Buckets(name script.Name) (c fleet.Candidacy, buckets []uint32, ok bool)
	// GateAnswered has the candidacy of the script have the answer.
	GateAnswered(name script.Name, a fleet.GateAnswer)
}

// Registry makes moves. A registry.Registry does.
type Registry interface {
	// Advance is a Conflict if the release is another one by now.
	Advance(ctx context.Context, req registry.AdvanceRequest) (registry.Result, error)
	// AdvanceSet is Advance for candidates of one change set.
	AdvanceSet(ctx context.Context, req registry.AdvanceSetRequest) error
}

// Config of a Controller.
type Config struct {
	Fleet    Fleet
	Registry Registry
	// Gates are asked for steps that have gates; none if nil.
	Gates gate.Asking
	// Clock tells the time; time.Now if nil.
	Clock func() time.Time
	// Moved, if not nil, is called for each move that is stored, and with an error for each
	// that failed, which the controller retries: script.ChangeAdvance, ChangePromote or
	// ChangeAbort. It is called concurrently.
	Moved func(move script.Change, err error)
	Log   *slog.Logger
}

// Controller makes the next move of each candidate when it is due.
type Controller struct{ cfg Config }

// New returns a controller that does nothing until it is Run.
func New(cfg Config) *Controller {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Gates == nil {
		cfg.Gates = gate.NewSources(cfg.Log, nil)
	}
	if cfg.Moved == nil {
		cfg.Moved = func(script.Change, error) {}
	}
	return &Controller{cfg: cfg}
}

// Bounds of what the controller does.
const (
	// Looks at all candidates are lookInterval apart, and more if there are many.
	lookInterval       = 20 * time.Millisecond
	candidatesPerLook  = 200 // in that time
	maxMoves           = 16  // at a time
	moveTimeout        = 10 * time.Second
	minPause, maxPause = 250 * time.Millisecond, 30 * time.Second // after an error
	// seenAfter is how long the fleet may take to learn of a move before it is made
	// again, which is a Conflict if it was made.
	seenAfter = 5 * time.Second
)

// run is one run of a controller.
type run struct {
	*Controller
	running sync.WaitGroup
	gates   *gate.Asker

	mu      sync.Mutex
	tasks   map[script.Name]*task
	moving  int           // at most maxMoves
	returns chan struct{} // has room for one: a move has come to an end
}

// task is what was last tried for a script.
type task struct {
	at     script.Revision // of the release that it was for
	moving bool
	rest   time.Time // nothing more is tried for that release before
	pause  time.Duration
}

// Run makes moves until ctx is done. It is to run while this replica leads.
func (c *Controller) Run(ctx context.Context) {
	p := &run{Controller: c, tasks: map[script.Name]*task{}, returns: make(chan struct{}, 1)}
	p.gates = gate.NewAsker(c.cfg.Gates, p.answered)
	p.running.Go(func() { p.gates.Run(ctx) })
	defer p.running.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		changed := c.cfg.Fleet.Changed()
		now := c.cfg.Clock()
		due, candidates := p.look(ctx, now)
		timer.Stop()
		if !due.IsZero() {
			timer.Reset(max(0, due.Sub(now)))
		}
		select {
		case <-changed:
		case <-p.returns:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		pause(ctx, lookInterval+lookInterval*time.Duration(candidates)/candidatesPerLook)
	}
}

// answered has the fleet, and so the next look, know what a gate has said.
func (p *run) answered(q gate.Question, asked time.Time, a gate.Answer) {
	p.cfg.Fleet.GateAnswered(q.Name, fleet.GateAnswer{Attempt: q.Attempt, Step: q.Step, At: asked, Result: a.Result, Text: a.Text})
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// look starts each move that is due, and returns when to look again though nothing
// changes, the zero Time if never, and the number of candidates.
func (p *run) look(ctx context.Context, now time.Time) (due time.Time, candidates int) {
	list := p.cfg.Fleet.Candidacies()
	p.mu.Lock()
	defer p.mu.Unlock()
	sooner := func(t time.Time) {
		if due.IsZero() || t.Before(due) {
			due = t
		}
	}
	tasks := make(map[script.Name]*task, len(list))
	var ready []readyMove
	var questions []gate.Question
	sets := changeSets{}
	for i := range list {
		release := &list[i].Release
		e := p.tasks[release.Name]
		if e == nil {
			e = &task{}
		}
		tasks[release.Name] = e
		rests := e.at == release.Revision && now.Before(e.rest)
		if rests {
			sooner(e.rest)
		}
		if e.moving || rests {
			sets.block(&list[i])
			continue
		}
		d := Next(list[i], now)
		if !d.Until.IsZero() {
			sooner(d.Until)
		}
		if d.Ask {
			questions = append(questions, question(&list[i]))
		}
		if move := (readyMove{[]*task{e}, []*fleet.Candidacy{&list[i]}, d.Move}); !sets.add(move) && d.Move != (registry.Move{}) {
			ready = append(ready, move)
		}
	}
	ready = append(ready, sets.ready()...)
	slices.SortFunc(ready, byUrgency)
	for _, r := range ready[:min(len(ready), maxMoves-p.moving)] { // the rest when one returns
		p.start(ctx, r)
	}
	for name, e := range p.tasks {
		if e.moving {
			tasks[name] = e
		}
	}
	p.tasks = tasks
	p.gates.Want(questions)
	return due, len(list)
}

// readyMove is a move that is due: of one candidate, or the same of several of a change set.
type readyMove struct {
	tasks       []*task
	candidacies []*fleet.Candidacy
	move        registry.Move
}

// byUrgency has what fails end first, and what waited for a thaw or for another script begin last:
// there may be many of those.
func byUrgency(a, b readyMove) int { return cmp.Compare(a.rank(), b.rank()) }

func (r readyMove) rank() int {
	begins := r.move.Promote || r.move.Step > 0
	switch release := &r.candidacies[0].Release; {
	case r.move.Failed != "":
		return 0
	case r.move.Begin, begins && release.Candidate.Step == 0 && len(release.Plan().After) > 0:
		return 2
	}
	return 1
}

// start makes the move in the background.
func (p *run) start(ctx context.Context, m readyMove) {
	list, last := make([]fleet.Candidacy, len(m.tasks)), time.Duration(0)
	for i, e := range m.tasks {
		list[i] = *m.candidacies[i]
		if e.at != list[i].Release.Revision {
			e.at, e.pause = list[i].Release.Revision, 0
		}
		e.moving, last = true, max(last, e.pause)
	}
	p.moving++
	p.running.Go(func() {
		rest := p.move(ctx, list, m.move, last)
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, e := range m.tasks {
			e.moving, e.pause, e.rest = false, rest.pause, p.cfg.Clock().Add(rest.after)
		}
		p.moving--
		select {
		case p.returns <- struct{}{}:
		default: // it is looked already
		}
	})
}

// rest is how long nothing more is tried for a release, and how long the pause is if that
// is because of an error.
type rest struct{ after, pause time.Duration }

// move makes the move of the candidates; the last one for the releases was followed by the pause.
func (p *run) move(ctx context.Context, list []fleet.Candidacy, move registry.Move, last time.Duration) rest {
	c := list[0]
	log := p.cfg.Log.With("script", c.Release.Name.String(), "version", c.Release.Candidate.Version.Number, "attempt", c.Release.Candidate.Attempt)
	if set := c.Release.Candidate.Set; set != nil {
		log = log.With("change_set", set.Name)
	}
	if move.Step > 0 {
		var ok bool
		if move, ok = p.chosen(c, move); !ok {
			return rest{}
		}
	}
	bounded, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	err := p.advance(bounded, list, move)
	if cannotGoLive(c, move, err) {
		move = registry.Move{Failed: fmt.Sprintf("it cannot go live: %v", err)}
		err = p.advance(bounded, list, move)
	}
	switch script.KindOf(err) {
	case "":
		p.made(log, c, move)
		return rest{after: seenAfter}
	case script.Conflict, script.NotFound: // somebody was faster: the fleet learns of it
		return rest{after: seenAfter}
	}
	if ctx.Err() != nil {
		return rest{} // another replica goes on
	}
	pause := min(max(2*last, minPause), maxPause)
	level := slog.LevelWarn
	switch script.KindOf(err) {
	case script.Invalid, script.Denied, script.Internal: // it will hardly pass
		level = slog.LevelError
	}
	log.Log(ctx, level, "the next move of a candidate was not stored, and is tried again; `scriptctl rollout` can promote or abort it by hand",
		"error", err, "pause", pause, "step", move.Step, "promote", move.Promote, "failed", move.Failed)
	p.cfg.Moved(move.Change(), err)
	return rest{after: pause/2 + rand.N(pause/2), pause: pause}
}

// advance has the registry make the move.
func (p *run) advance(ctx context.Context, list []fleet.Candidacy, move registry.Move) error {
	moves := make([]registry.AdvanceRequest, len(list))
	for i, c := range list {
		moves[i] = registry.AdvanceRequest{
			Name: c.Release.Name, At: c.Release.Revision, Move: move,
			Evidence: Evidence(c),
			Calls:    c.EndedCalls, FailedCalls: c.EndedFailedCalls, AllCalls: c.Calls,
		}
	}
	if set := list[0].Release.Candidate.Set; set != nil && together(move) {
		return p.cfg.Registry.AdvanceSet(ctx, registry.AdvanceSetRequest{Tenant: list[0].Release.Name.Tenant, Set: set, Moves: moves})
	}
	_, err := p.cfg.Registry.Advance(ctx, moves[0])
	return err
}

// cannotGoLive reports whether the values of a change set stand in its way, for example because the tenant
// has no room for them any more. To try again would not help.
func cannotGoLive(c fleet.Candidacy, move registry.Move, err error) bool {
	if c.Release.Candidate.Set == nil || !move.Promote {
		return false
	}
	switch script.KindOf(err) {
	case script.Limit, script.Invalid, script.Internal:
		return true
	}
	return false
}

// chosen adds to the move which agents its step takes; ok is false if the fleet has changed
// so that it is not due any more.
func (p *run) chosen(c fleet.Candidacy, move registry.Move) (_ registry.Move, ok bool) {
	now, buckets, ok := p.cfg.Fleet.Buckets(c.Release.Name)
	if !ok || now.Release.Revision != c.Release.Revision || Next(now, p.cfg.Clock()).Move != move {
		return registry.Move{}, false
	}
	step, before := c.Release.Plan().Steps[move.Step-1], c.Release.Candidate.Threshold
	if step.Selector != "" {
		before = c.Release.Candidate.Selection(step.Selector).Threshold
	}
	switch {
	case step.By == script.ByKey:
		move.Threshold = script.KeyThreshold(step.Percent)
	case step.By == script.ByShadow:
		move.Threshold = script.ShadowThreshold(step.Percent)
	case step.Percent == 0:
		move.Threshold = script.AllSelected
	default:
		move.Threshold = Threshold(buckets, step.Percent, before)
	}
	return move, true
}

// made tells of a move.
func (p *run) made(log *slog.Logger, c fleet.Candidacy, move registry.Move) {
	steps := c.Release.Plan().Steps
	switch {
	case move.Begin:
		log.Info("a candidate begins: the freeze is over that it waited for")
	case move.Promote:
		log.Info("a candidate was promoted: it is live everywhere", "agents", c.Followers)
	case move.Failed != "":
		log.Warn("a candidate was given up: what was active stays so", "reason", move.Failed)
	case move.Lost != "":
		log.Warn("an agent was lost while it was to run a candidate", "agent", move.Lost, "lost", len(c.Lost))
	case move.Counted:
		log.Debug("the calls of a candidate that ended processes counted are recorded", "calls", c.EndedCalls, "failed", c.EndedFailedCalls)
	case move.Paused != "":
		log.Warn("a candidate is paused until a person decides", "reason", move.Paused)
	case move.Running:
		log.Info("the agents of a step run its candidate", "step", c.Release.Candidate.Step, "of", len(steps), "members", c.Members)
	default:
		log.Info("a candidate began a step of its rollout", "step", move.Step, "of", len(steps),
			"percent", steps[move.Step-1].Percent, "agents", c.Followers, "selector", string(steps[move.Step-1].Selector), "by", string(steps[move.Step-1].By))
	}
	p.cfg.Moved(move.Change(), nil)
}
