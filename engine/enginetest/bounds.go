package enginetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// unbounded returns limits that no test here meets, for tests of one other limit.
func unbounded() script.Limits { return script.MaxLimits() }

// endless are the programs that must be stopped.
func (s *suite) endless() map[string]string {
	return said(map[string]string{"spin": s.Spin, "caught": s.SpinCaught, "load": s.SpinLoad})
}

// said returns the programs that the language can say.
func said(programs map[string]string) map[string]string {
	maps.DeleteFunc(programs, func(_, source string) bool { return source == "" })
	return programs
}

func (s *suite) testInstructions(t *testing.T) {
	e := s.newEngine()
	for name, source := range s.endless() {
		t.Run(name, func(t *testing.T) {
			inv := invocation()
			inv.Limits = unbounded()
			inv.Limits.Instructions = 10_000
			_, err := call(t, s.compile(t, e, source, Entrypoint), inv)
			wantError(t, err, script.Limit)
		})
	}
	t.Run("enough", func(t *testing.T) {
		inv := invocation(`1`)
		inv.Limits.Instructions = cmp.Or(s.EchoInstructions, 1000)
		wantValues(t, s.compile(t, e, s.Echo, Entrypoint), inv, `1`)
		inv.Limits.Instructions = 1
		_, err := call(t, s.compile(t, e, s.Echo, Entrypoint), inv)
		wantError(t, err, script.Limit)
	})
}

func (s *suite) testTimeout(t *testing.T) {
	e := s.newEngine()
	for name, source := range s.endless() {
		t.Run(name, func(t *testing.T) {
			inv := invocation()
			inv.Limits = unbounded()
			inv.Limits.Timeout = 20 * time.Millisecond
			_, err := call(t, s.compile(t, e, source, Entrypoint), inv)
			wantError(t, err, script.Timeout)
		})
	}
}

func (s *suite) testContext(t *testing.T) {
	p := s.program(t, s.Spin)
	inv := invocation()
	inv.Limits = unbounded()
	var res engine.Result

	done, cancel := context.WithCancel(t.Context())
	cancel()
	wantError(t, p.Run(done, inv, &res), script.Timeout)

	deadline, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	wantError(t, p.Run(deadline, inv, &res), script.Timeout)

	cancelled, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	wantError(t, p.Run(cancelled, inv, &res), script.Timeout)
}

// testRecovers makes every error there is, and wants the next calls right.
func (s *suite) testRecovers(t *testing.T) {
	e := s.newEngine()
	good := s.compile(t, e, s.Echo, Entrypoint)
	count := s.compile(t, e, s.Count, Entrypoint)
	for name, source := range said(map[string]string{
		"fail": s.Fail, "spin": s.Spin, "caught": s.SpinCaught, "recurse": s.Recurse,
		"unencodable": s.Unencodable, "cycle": s.Cycle, "load": s.SpinLoad,
	}) {
		t.Run(name, func(t *testing.T) {
			bad := s.compile(t, e, source, Entrypoint)
			for range 10 {
				inv := invocation()
				inv.Limits.Instructions = 20_000
				if _, err := call(t, bad, inv); err == nil {
					t.Fatal("no error")
				}
				wantValues(t, good, invocation(`{"a":[1]}`), `{"a":[1]}`)
				wantValues(t, count, invocation(), `1`)
			}
		})
	}
}

func (s *suite) testConcurrent(t *testing.T) {
	e := s.newEngine()
	echo := s.compile(t, e, s.Echo, Entrypoint)
	count := s.compile(t, e, s.Count, Entrypoint)
	fail := s.compile(t, e, s.Fail, Entrypoint)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			var res engine.Result
			for i := range 200 {
				tenant := fmt.Sprintf("tenant-%d", (worker+i)%3)
				want := fmt.Sprintf(`{"tenant":%q,"n":%d}`, tenant, i)
				inv := invocation(want)
				inv.Tenant = tenant
				for _, c := range []struct {
					program engine.Program
					want    string
				}{{echo, want}, {count, "1"}, {fail, ""}} {
					res.Reset()
					err := c.program.Run(t.Context(), inv, &res)
					switch {
					case c.want == "" && err == nil:
						t.Error("no error")
					case c.want != "" && (err != nil || string(res.Value(0)) != s.written(c.want)):
						t.Errorf("got %q, %v, want %s", values(&res), err, c.want)
					}
				}
			}
		})
	}
	wg.Wait()
}

func (s *suite) testClose(t *testing.T) {
	e := s.newEngine()
	p := s.compile(t, e, s.Echo, Entrypoint)
	wantValues(t, p, invocation(`1`), `1`)
	p.Close()
	p.Close()
	wantValues(t, p, invocation(`1`), `1`)

	spin := s.compile(t, e, s.Spin, Entrypoint)
	inv := invocation()
	inv.Limits = unbounded()
	inv.Limits.Timeout = 20 * time.Millisecond
	ended := make(chan error)
	go func() {
		var res engine.Result
		ended <- spin.Run(t.Context(), inv, &res)
	}()
	spin.Close()
	wantError(t, <-ended, script.Timeout)
}

func (s *suite) testNoGoroutineStays(t *testing.T) {
	before := runtime.NumGoroutine()
	e := s.newEngine()
	p, spin := s.compile(t, e, s.Echo, Entrypoint), s.compile(t, e, s.Spin, Entrypoint)
	for range 50 {
		wantValues(t, p, invocation(`1`), `1`)
	}
	inv := invocation()
	inv.Limits.Instructions = 1000
	_, err := call(t, spin, inv)
	wantError(t, err, script.Limit)

	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(10 * time.Second)
	for runtime.NumGoroutine() > before {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}
