package scriptbench_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/offline"
	"github.com/scriptorium-dev/scriptorium/internal/scriptbench"
	"github.com/scriptorium-dev/scriptorium/script"
)

func sideOf(t *testing.T, e *engines.Set, source string) scriptbench.Side {
	t.Helper()
	edition := &script.Edition{Version: script.Version{Engine: script.EngineLua, Entrypoint: "handle"}, Source: []byte(source)}
	edition.Spec.Limits.Timeout = script.MaxLimits().Timeout
	program, err := offline.Compile(e, edition)
	if err != nil {
		t.Fatal(err)
	}
	return scriptbench.Side{Program: program, Call: offline.Call{Name: script.Name{Tenant: "acme", Script: "loop"}, Args: [][]byte{[]byte("{}")}}}
}

// loop is a script that makes a table so many times.
func loop(n int) string {
	return fmt.Sprintf("function handle() local t for i = 1, %d do t = {i} end return t end", n)
}

func TestDifferentSides(t *testing.T) {
	e := engines.Offline()
	res, err := scriptbench.Measure(t.Context(), &scriptbench.Config{Rounds: 8, Time: 2 * time.Millisecond}, sideOf(t, e, loop(2000)), sideOf(t, e, loop(20)))
	if err != nil {
		t.Fatal(err)
	}
	slow, fast := res.Sides[0], res.Sides[1]
	for m, more := range map[scriptbench.Metric]bool{
		scriptbench.CallsPerSecond: false, scriptbench.P50Seconds: true, scriptbench.Instructions: true, scriptbench.AllocatedBytes: true,
	} {
		c := res.Compared[m]
		if (slow[m].Median > fast[m].Median) != more || !c.Significant || c.P >= 0.05 {
			t.Errorf("metric %d: %+v and %+v, %+v", m, slow[m], fast[m], c)
		}
		if s := slow[m]; s.Low > s.Median || s.High < s.Median || math.IsInf(s.Low, 0) || math.IsInf(s.High, 0) {
			t.Errorf("metric %d: no interval around the median: %+v", m, s)
		}
	}
}

// TestSameSides: what does not depend on the machine is equal, and no difference is said.
func TestSameSides(t *testing.T) {
	e := engines.Offline()
	res, err := scriptbench.Measure(t.Context(), &scriptbench.Config{Rounds: scriptbench.MinRounds, Time: time.Millisecond}, sideOf(t, e, loop(20)), sideOf(t, e, loop(20)))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []scriptbench.Metric{scriptbench.Instructions, scriptbench.AllocatedBytes} {
		if s := res.Sides[0][m]; s != res.Sides[1][m] || s.Low != s.High || res.Compared[m].Significant {
			t.Errorf("metric %d: %+v, %+v", m, res.Sides, res.Compared[m])
		}
	}
}

// TestSlowCalls have no 99th percentile.
func TestSlowCalls(t *testing.T) {
	res, err := scriptbench.Measure(t.Context(), &scriptbench.Config{Rounds: scriptbench.MinRounds, Time: time.Microsecond}, sideOf(t, engines.Offline(), loop(20)))
	if err != nil || !math.IsNaN(res.Sides[0][scriptbench.P99Seconds].Median) || !(res.Sides[0][scriptbench.P50Seconds].Median > 0) || res.Compared != nil {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestErrors: calls that fail can be measured, if all fail alike.
func TestErrors(t *testing.T) {
	e := engines.Offline()
	cfg := &scriptbench.Config{Rounds: scriptbench.MinRounds, Time: time.Microsecond}
	if _, err := scriptbench.Measure(t.Context(), cfg, sideOf(t, e, `function handle() error("no") end`)); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := scriptbench.Measure(ctx, cfg, sideOf(t, e, loop(20))); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
