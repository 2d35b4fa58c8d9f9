package lua_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest/corpus"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// A child runs a part of the corpus: what crashes it is known by what it said last.
const (
	corpusVariable = "SCRIPTORIUM_TEST_CORPUS"       // the family
	afterVariable  = "SCRIPTORIUM_TEST_CORPUS_AFTER" // the script to begin behind, or ""
	thirdVariable  = "SCRIPTORIUM_TEST_CORPUS_THIRD" // of the variants, from 0; -1 for all
	corpusDir      = "testdata/corpus"
)

func TestMain(m *testing.M) {
	if family, ok := os.LookupEnv(corpusVariable); ok {
		if err := runCorpus(os.Stdout, family, os.Getenv(afterVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// corpusLimits are the limits of a hostile call.
func corpusLimits(s *corpus.Script, v corpus.Variant) script.Limits {
	const deadline = 250 * time.Millisecond
	limits := script.Limits{Timeout: deadline, Coroutines: v.Coroutines}
	switch {
	case s.MostLimits:
		limits = script.MaxLimits()
		limits.Timeout /= 5 // which suffices to fill any memory
	case !v.Exact:
		limits.Instructions = 200_000 // or most of these would do the same for longer
	}
	return limits
}

// corpusRun is what a child says of one run of one script: first that it begins, and
// then how it went.
type corpusRun struct {
	Script, Variant string
	Most            bool // with the highest limits
	Ended           bool
	Kind            script.Kind
	Wall            time.Duration
	Peak, Total     int64 // bytes: by how much the heap grew, and all that the call allocated
	CompileWall     time.Duration
	Problems        []string
}

// runCorpus runs all scripts of a family, behind the one named after, and writes a
// line of JSON for each begin and each end.
func runCorpus(w io.Writer, family, after string) error {
	scripts, err := corpus.Read(os.DirFS(corpusDir))
	if err != nil {
		return err
	}
	third, err := strconv.Atoi(os.Getenv(thirdVariable))
	if err != nil {
		return fmt.Errorf("%s: %w", thirdVariable, err)
	}
	c := &corpusChild{engine: lua.New(), host: &canaryHost{}, out: json.NewEncoder(w)}
	if err := c.compileGolden(); err != nil {
		return err
	}
	c.heap.start()
	defer c.heap.end()
	c.golden() // and warm
	for i, s := range scripts {
		if s.Family != family || s.ProcessOnly {
			continue
		}
		if after != "" {
			if s.Name == after {
				after = ""
			}
			continue
		}
		for _, v := range chosen(s.Variants(), i, third) {
			if err := c.run(s, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// thirds is how many choices of variants there are.
const thirds = 3

// chosen returns which variants of the n-th script are run: the script as it is and a third of the
// others, other ones for the next script. So each way to run a script meets each family. A third
// of -1 is all of them.
func chosen(variants []corpus.Variant, n, third int) []corpus.Variant {
	if third < 0 {
		return variants
	}
	some := variants[:1:1]
	for i, v := range variants[1:] {
		if (i+n)%thirds == third {
			some = append(some, v)
		}
	}
	return some
}

// corpusChild runs hostile scripts of one tenant, mallory, on the engine that serves
// others.
type corpusChild struct {
	engine   engine.Engine
	programs []engine.Program // of golden
	host     *canaryHost
	heap     heapWatch
	res      engine.Result // one for all: nothing of one call may be seen in another
	out      *json.Encoder
	problems []string
}

func (c *corpusChild) problem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *corpusChild) run(s *corpus.Script, v corpus.Variant) error {
	r := corpusRun{Script: s.Name, Variant: v.Name, Most: s.MostLimits}
	if err := c.out.Encode(r); err != nil {
		return err
	}
	c.problems = nil
	goroutines, limits := runtime.NumGoroutine(), corpusLimits(s, v)
	// A busy machine delays the deadline and the garbage collector. So a call that is late, or that
	// grows the heap too far, has three chances, a late one with more time each time. A script that
	// really ignores a limit does so each time.
	const tries = 3
	for try := range tries {
		excess := c.call(s, v, &r, limits)
		if excess != "" {
			limits.Timeout *= 4
		} else if r.Peak > s.Alloc {
			excess = fmt.Sprintf("the heap grew by %d KiB, more than %d", r.Peak>>10, s.Alloc>>10)
		}
		if excess == "" {
			break
		}
		if try == tries-1 {
			c.problem("%s", excess)
		}
	}
	// What is not counted: some bytes for each instruction, of numbers above all; and an
	// error with its traceback at each pcall that the last one passes on its way out.
	const uncounted, unwinding = 12, 8 << 20
	most := lua.Allowance(limits)*10/9 + uncounted*int64(limits.OrDefaults().Instructions) + unwinding
	if r.Total > most {
		c.problem("the call allocated %d KiB, more than %d", r.Total>>10, most>>10)
	}
	c.golden()
	// The engine's watchdog may come and go meanwhile.
	if n := runtime.NumGoroutine(); n > goroutines+1 {
		c.problem("%d goroutines, %d before", n, goroutines)
	}
	r.Ended, r.Problems = true, c.problems
	return c.out.Encode(r)
}

// call runs a variant once and looks at how it ends. It returns what is wrong if that
// may be because the machine is busy.
func (c *corpusChild) call(s *corpus.Script, v corpus.Variant, r *corpusRun, limits script.Limits) (late string) {
	c.host.logged.Reset()
	c.res.Reset()
	busy := processTime()
	err := c.measure(v, r, limits)
	busy = processTime() - busy
	r.Kind = script.KindOf(err)
	// Without the processor's time for it, it cannot have run on beyond its deadline.
	if r.Wall > 2*limits.Timeout && (busy > limits.Timeout || r.Wall > silence/2) {
		late = fmt.Sprintf("took %v, more than twice its deadline", r.Wall)
	}
	switch {
	case v.Exact && !s.Allows(r.Kind):
		wrong := fmt.Sprintf("error = %v (%s), want one of %q", err, r.Kind, s.Want)
		if r.Kind == script.Timeout {
			late = wrong
			break
		}
		c.problem("%s", wrong)
	case r.Kind == script.Internal, r.Kind == script.Invalid && !s.Allows(script.Invalid):
		c.problem("error = %v (%s): %v", err, r.Kind, errors.Unwrap(err))
	}
	if err != nil && c.res.Len() != 0 {
		c.problem("%d results beside an error", c.res.Len())
	}
	if err != nil {
		c.presentable(script.AsError(err))
	}
	for i := range c.res.Len() {
		c.discreet("a result", c.res.Value(i))
	}
	c.discreet("the log", c.host.logged.Bytes())
	return late
}

// processTime returns the time that this process has had of processors.
func processTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// measure compiles and runs a variant.
func (c *corpusChild) measure(v corpus.Variant, r *corpusRun, limits script.Limits) error {
	c.heap.begin()
	defer func() { r.Peak = c.heap.grown() }()
	p, cost, err := compileFastest(c.engine, engine.Source{Code: []byte(v.Source), Entrypoint: corpus.Entrypoint})
	r.CompileWall = cost.wall
	if excess := cost.excess(); excess != "" && len(v.Source) <= boundedSource {
		c.problem("%s", excess)
	}
	if err != nil {
		return err
	}
	compiled := readHeap(heapAllocs)
	inv := &engine.Invocation{
		Tenant: "mallory", Script: "evil", Version: 1, Limits: limits, Host: c.host,
		Args: [][]byte{[]byte(`{"path":"/","headers":{"cookie":"session=42"}}`)}, Config: []byte(`{"mine":true}`),
	}
	started := time.Now()
	err = p.Run(context.Background(), inv, &c.res)
	r.Wall = time.Since(started)
	r.Total = int64(readHeap(heapAllocs) - compiled)
	return err
}

// presentable looks for what no error may tell.
func (c *corpusChild) presentable(err *script.Error) {
	c.discreet("the error", []byte(err.Message+err.Field))
	if err.Message == "" || len(err.Message) > 1100 {
		c.problem("message of %d bytes", len(err.Message))
	}
	for _, leak := range luatest.EngineWords {
		if strings.Contains(err.Message, leak) {
			c.problem("message tells %q: %s", leak, err.Message)
		}
	}
}

// discreet looks for the other tenant's secret.
func (c *corpusChild) discreet(where string, text []byte) {
	if bytes.Contains(text, []byte(canary)) {
		c.problem("%s tells the other tenant's secret: %.200s", where, text)
	}
}

// heapWatch measures the heap while something runs.
type heapWatch struct {
	stop   chan struct{}
	before uint64
	peak   atomic.Uint64
}

const (
	heapObjects = "/memory/classes/heap/objects:bytes"
	heapAllocs  = "/gc/heap/allocs:bytes"
)

func readHeap(name string) uint64 {
	sample := [1]metrics.Sample{{Name: name}}
	metrics.Read(sample[:])
	return sample[0].Value.Uint64()
}

// start begins to look at the heap every millisecond.
func (h *heapWatch) start() {
	h.stop = make(chan struct{})
	go func() {
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				h.look()
			case <-h.stop:
				return
			}
		}
	}()
}

func (h *heapWatch) end() { close(h.stop) }

func (h *heapWatch) look() {
	now := readHeap(heapObjects)
	for {
		peak := h.peak.Load()
		if now <= peak || h.peak.CompareAndSwap(peak, now) {
			return
		}
	}
}

func (h *heapWatch) begin() {
	runtime.GC()
	h.before = readHeap(heapObjects)
	h.peak.Store(h.before)
}

// grown returns by how much the heap grew at most since begin, garbage included.
func (h *heapWatch) grown() int64 {
	h.look()
	return int64(h.peak.Load() - h.before)
}
