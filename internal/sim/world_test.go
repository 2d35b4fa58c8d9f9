package sim

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/registry/fanout"
	"github.com/scriptorium-dev/scriptorium/registry/session"
	"github.com/scriptorium-dev/scriptorium/script"
)

// world is one run of a schedule.
type world struct {
	seed  uint64
	shape shape
	bugs  bugs
	ctx   context.Context
	began time.Time

	line     *timeline
	truth    *truth
	bus      *bus
	election *election
	replicas []*replica
	agents   []*agent
	running  sync.WaitGroup // everything
	writing  sync.WaitGroup // writers

	keys    []ed25519.PrivateKey // those that agents trust
	signing int                  // which of them registries sign with
	skew    time.Duration        // of the registries' clocks
	secrets secrets              // of agents' sessions

	mu         sync.Mutex
	history    []string
	violations []string
}

// bugs are put in on purpose, to find out whether they are found.
type bugs struct {
	bus      func(*world, message) []message
	pages    func(w *world, c *channel, nonce, data []byte) []byte
	store    func(*storeLink) registryStore
	state    func(*process) followState
	reporter func(*process) followReporter
	sessions func(*session.Sessions) fanout.Sessions
}

// result is what came of a run.
type result struct {
	violations []string
	history    []string
	healed     time.Duration // from the end of the faults until all was well
}

// run runs the schedule on a clock of its own.
func run(t *testing.T, s shape, b bugs) (r result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t.Context(), s, b)
		end := w.start()
		defer end()
		for _, st := range s.steps {
			_ = rest(w.ctx, st.wait) // the context is not done before the end
			w.do(st)
			synctest.Wait()
			w.check()
			if w.failed() {
				break
			}
		}
		if !w.failed() {
			r.healed = w.settle()
		}
		r.violations, r.history = w.outcome()
	})
	return r
}

// Keys are made once: what they are does not matter, and making them takes time.
var keys = sync.OnceValue(func() []ed25519.PrivateKey {
	made := make([]ed25519.PrivateKey, 3)
	for i := range made {
		made[i] = ed25519.NewKeyFromSeed([]byte(fmt.Sprintf("%032d", i)))
	}
	return made
})

func newWorld(ctx context.Context, s shape, b bugs) *world {
	w := &world{
		seed: s.seed, shape: s, bugs: b, began: time.Now(), ctx: ctx,
		line: newTimeline(), truth: newTruth(), keys: keys()[:2],
	}
	w.bus = &bus{line: w.line, seed: s.seed}
	if b.bus != nil {
		w.bus.alter = func(m message) []message { return b.bus(w, m) }
	}
	w.secrets.truth = w.truth
	w.election = &election{line: w.line}
	for i := range s.replicas {
		w.replicas = append(w.replicas, newReplica(w, i))
	}
	for i, globs := range s.agents {
		w.agents = append(w.agents, newAgent(w, i, globs))
	}
	return w
}

// start starts everything; the returned function ends it.
func (w *world) start() (end func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	w.ctx = ctx
	w.running.Go(func() { w.line.run(ctx) })
	for _, r := range w.replicas {
		r.start()
	}
	for _, a := range w.agents {
		a.start()
	}
	return func() {
		for _, a := range w.agents {
			a.crash(crashClean, nil)
		}
		for _, r := range w.replicas {
			r.kill()
		}
		cancel()
		w.writing.Wait()
		w.running.Wait()
		// What a replica asks the store on behalf of several callers ends by itself.
		_ = rest(context.Background(), time.Minute)
	}
}

// sealer signs with the one, and has the other as a former key.
func (w *world) sealer() *seal.Sealer {
	return seal.NewSealer(w.keys[w.signing], w.keys[1-w.signing])
}

func (w *world) keyring() *seal.Keyring {
	public := make([]ed25519.PublicKey, len(w.keys))
	for i, key := range w.keys {
		public[i] = key.Public().(ed25519.PublicKey)
	}
	return seal.NewKeyring(public...)
}

// clock is what the registries believe that the time is.
func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.skew)
}

// anyServer returns one that lives; nil if there is none.
func (w *world) anyServer(r *rand.Rand) *server {
	first := r.IntN(len(w.replicas))
	for i := range w.replicas {
		if s := w.replicas[(first+i)%len(w.replicas)].running.Load(); s != nil {
			return s
		}
	}
	return nil
}

// servers returns those that live.
func (w *world) servers() []*server {
	var all []*server
	for _, r := range w.replicas {
		if s := r.running.Load(); s != nil {
			all = append(all, s)
		}
	}
	return all
}

// log adds a line to the history.
func (w *world) log(format string, args ...any) {
	line := fmt.Sprintf("%9.3fs  ", time.Since(w.began).Seconds()) + fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, line)
}

// violate says that a promise was broken.
func (w *world) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.log("VIOLATION: %s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, text)
}

func (w *world) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.violations) > 0
}

func (w *world) outcome() (violations, history []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.violations, w.history
}

// logger is what the parts of a process log with: a history shows what they said.
func (w *world) logger(who string) *slog.Logger {
	return slog.New(&chronicler{w: w, who: who})
}

// chronicler writes warnings into the history.
type chronicler struct {
	w     *world
	who   string
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (c *chronicler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// Handle implements slog.Handler.
func (c *chronicler) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	c.w.log("%s says: %s", c.who, text)
	return nil
}

// WithAttrs implements slog.Handler.
func (c *chronicler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &chronicler{w: c.w, who: c.who, attrs: append(c.attrs[:len(c.attrs):len(c.attrs)], attrs...)}
}

// WithGroup implements slog.Handler.
func (c *chronicler) WithGroup(string) slog.Handler { return c }

// check looks at what must be true at every moment.
func (w *world) check() {
	for _, s := range w.servers() {
		s.check()
	}
	for _, a := range w.agents {
		a.check()
	}
	w.checkHalves()
}

// selector reads globs with commas between them.
func selector(globs string) script.Selector {
	if globs == "" {
		return script.Selector{}
	}
	s, err := script.ParseSelector(splitGlobs(globs))
	if err != nil {
		panic(err) // they are constants of this package
	}
	return s
}
