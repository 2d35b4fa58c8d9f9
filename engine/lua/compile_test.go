package lua_test

import (
	"errors"
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
	"github.com/scriptorium-dev/scriptorium/script"
)

// What compiling a source of up to 64 KiB may take.
const (
	boundedSource = 64 << 10
	maxCompileCPU = 100 * time.Millisecond
	maxCompileMem = 32 << 20
)

// compileCosts compiles code and returns the processor's time it took this thread and
// the bytes that were allocated.
func compileCosts(e engine.Engine, code []byte) (p engine.Program, cpu time.Duration, bytes uint64, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	allocated, started := readHeap(heapAllocs), threadTime()
	p, err = e.Compile(engine.Source{Code: code})
	return p, threadTime() - started, readHeap(heapAllocs) - allocated, err
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

// wantBounded fails if compiling code takes too much. A busy machine makes a thread
// slower, too: only what takes too long each time takes too long.
func wantBounded(t *testing.T, e engine.Engine, code []byte) (engine.Program, error) {
	t.Helper()
	var p engine.Program
	var err error
	fastest := time.Hour
	const tries = 5
	for range tries {
		var cpu time.Duration
		var bytes uint64
		p, cpu, bytes, err = compileCosts(e, code)
		if bytes > maxCompileMem {
			t.Errorf("%d bytes of source: %d MiB allocated", len(code), bytes>>20)
		}
		if fastest = min(fastest, cpu); fastest <= maxCompileCPU {
			break
		}
	}
	if fastest > maxCompileCPU && !lua.RaceEnabled {
		t.Errorf("%d bytes of source: compiling takes %v", len(code), fastest)
	}
	return p, err
}

// TestCompileIsBounded gives the compiler the worst sources of 64 KiB.
func TestCompileIsBounded(t *testing.T) {
	for name, source := range sourceBombs {
		t.Run(name, func(t *testing.T) {
			n := sort.Search(boundedSource+1, func(n int) bool { return len(source(n)) > boundedSource }) - 1
			_, err := wantBounded(t, lua.New(), []byte(source(max(n, 0))))
			t.Log(err)
		})
	}
}

func FuzzCompile(f *testing.F) {
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
	e := lua.New()
	f.Fuzz(func(t *testing.T, code []byte) {
		if len(code) > boundedSource {
			code = code[:boundedSource]
		}
		p, err := wantBounded(t, e, code)
		if err == nil { // then it must run, too, without a fault of the engine
			_, err = runUnder(t, script.Limits{Instructions: 10_000, Timeout: patient}, p, "acme")
			wantPresentable(t, err)
			return
		}
		got, ok := errors.AsType[*script.Error](err)
		if !ok {
			t.Fatalf("error is a %T", err)
		}
		if got.Kind != script.Script && got.Kind != script.Limit && got.Kind != script.Invalid {
			t.Errorf("kind %s", got.Kind)
		}
		if lines := strings.Count(string(code), "\n") + strings.Count(string(code), "\r") + 2; got.Line < 0 || got.Line > lines {
			t.Errorf("line %d of %d: %v", got.Line, lines, err)
		}
		wantPresentable(t, err)
	})
}
