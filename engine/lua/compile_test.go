package lua_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest/corpus"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// What compiling a source of up to 64 KiB may take.
const (
	boundedSource = 64 << 10
	maxCompileCPU = 100 * time.Millisecond
	maxCompileMem = 32 << 20
)

// compileCost is what compiling took: the processor's time of this thread, and the bytes
// that were allocated.
type compileCost struct {
	cpu, wall time.Duration
	bytes     uint64
}

func compileMeasured(e engine.Engine, src engine.Source) (engine.Program, compileCost, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	allocated, cpu, started := readHeap(heapAllocs), threadTime(), time.Now()
	p, err := e.Compile(src)
	return p, compileCost{cpu: threadTime() - cpu, wall: time.Since(started), bytes: readHeap(heapAllocs) - allocated}, err
}

// compileFastest compiles up to twenty times, until that is as fast as it must be. A busy
// machine makes a thread slower, too: only what takes too long each time takes too long.
func compileFastest(e engine.Engine, src engine.Source) (p engine.Program, fastest compileCost, err error) {
	const tries = 20
	for try := range tries {
		var cost compileCost
		p, cost, err = compileMeasured(e, src)
		if try == 0 || cost.cpu < fastest.cpu {
			fastest = cost
		}
		if fastest.cpu <= maxCompileCPU {
			break
		}
	}
	return p, fastest, err
}

// threadTime returns the time that this thread has had of a processor.
func threadTime() time.Duration {
	const thisThread = 1 // RUSAGE_THREAD
	var usage syscall.Rusage
	if err := syscall.Getrusage(thisThread, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// excess says what compiling takes too much of, or "".
func (c compileCost) excess() string {
	switch {
	case c.bytes > maxCompileMem:
		return fmt.Sprintf("compiling allocates %d MiB", c.bytes>>20)
	case c.cpu > maxCompileCPU:
		return fmt.Sprintf("compiling takes %v", c.cpu)
	}
	return ""
}

// wantBounded fails if compiling src takes too much.
func wantBounded(t *testing.T, e engine.Engine, src engine.Source) (engine.Program, error) {
	t.Helper()
	p, cost, err := compileFastest(e, src)
	if excess := cost.excess(); excess != "" {
		t.Errorf("%d bytes of source, entrypoint %q: %s", len(src.Code), src.Entrypoint, excess)
	}
	return p, err
}

// TestCompileIsBounded gives the compiler the worst sources of 64 KiB, as they are and
// beside an entrypoint, which is compiled in another way.
func TestCompileIsBounded(t *testing.T) {
	needs.NoRace(t)
	const entrypoint = "function " + corpus.Entrypoint + "() end "
	for name, source := range sourceBombs {
		t.Run(name, func(t *testing.T) {
			for _, src := range []engine.Source{
				{Code: []byte(largest(source, boundedSource))},
				{Code: []byte(entrypoint + largest(source, boundedSource-len(entrypoint))), Entrypoint: corpus.Entrypoint},
			} {
				_, err := wantBounded(t, lua.New(), src)
				t.Log(err)
			}
		})
	}
}

// largest returns the largest of a source that has up to so many bytes.
func largest(source func(n int) string, most int) string {
	n := sort.Search(most+1, func(n int) bool { return len(source(n)) > most }) - 1
	return source(max(n, 0))
}

func FuzzCompile(f *testing.F) {
	needs.NoRace(f)
	for _, source := range sourceBombs {
		f.Add([]byte(source(300)))
		f.Add([]byte(source(20_000)))
	}
	scripts, err := corpus.Read(os.DirFS(corpusDir))
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range scripts {
		f.Add([]byte(s.Variants()[0].Source))
	}
	f.Add([]byte(typicalSource))
	f.Add([]byte("local n = 0 function handle() n = n + 1 return n end local handle = handle"))
	f.Add([]byte("function handle(...) return arg, config end do local handle handle = 1 end goto x ::x::"))
	e := lua.New()
	f.Fuzz(func(t *testing.T, code []byte) {
		if len(code) > boundedSource {
			code = code[:boundedSource]
		}
		for _, entrypoint := range []string{"", corpus.Entrypoint} {
			fuzzCompile(t, e, engine.Source{Code: code, Entrypoint: entrypoint})
		}
	})
}

func fuzzCompile(t *testing.T, e engine.Engine, src engine.Source) {
	t.Helper()
	p, err := wantBounded(t, e, src)
	if err == nil { // then it must run, too, without a fault of the engine
		_, err = luatest.RunUnder(t, script.Limits{Instructions: 10_000, Timeout: luatest.Patient}, p, "acme")
		luatest.WantPresentable(t, err)
		return
	}
	got, ok := errors.AsType[*script.Error](err)
	if !ok {
		t.Fatalf("error is a %T", err)
	}
	if got.Kind != script.Script && got.Kind != script.Limit && got.Kind != script.Invalid {
		t.Errorf("kind %s", got.Kind)
	}
	code := string(src.Code)
	if lines := strings.Count(code, "\n") + strings.Count(code, "\r") + 2; got.Line < 0 || got.Line > lines {
		t.Errorf("line %d of %d: %v", got.Line, lines, err)
	}
	luatest.WantPresentable(t, err)
}
