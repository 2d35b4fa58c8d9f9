package scriptctl

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/pprof/profile"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/flame"
)

// graph returns the profile as a flame graph.
func (p *scriptProfile) graph() *flame.Graph {
	ref := fmt.Sprintf("%s@%d", p.Script, p.Version)
	g := &flame.Graph{
		Title: fmt.Sprintf("%s: %d calls in %s, about %s instructions", ref, p.Calls, seconds(p.Seconds), short(p.Instructions)),
		Root:  ref, Unit: "instructions",
	}
	for _, s := range p.Stacks {
		stack := flame.Stack{Value: s.Instructions}
		for _, f := range slices.Backward(s.Frames) {
			stack.Frames = append(stack.Frames, f.String())
		}
		g.Stacks = append(g.Stacks, stack)
	}
	if p.Missed > 0 {
		g.Stacks = append(g.Stacks, flame.Stack{Frames: []string{"(no line)"}, Value: p.Missed})
	}
	return g
}

// String returns "sum line 4", or the name of a builtin.
func (f profiledFrame) String() string {
	if f.Line == 0 {
		return f.Function
	}
	return fmt.Sprintf("%s line %d", f.Function, f.Line)
}

// pprof returns the profile in the format of pprof.
func (p *scriptProfile) pprof() *profile.Profile {
	unit := &profile.ValueType{Type: "instructions", Unit: "count"}
	out := &profile.Profile{
		SampleType: []*profile.ValueType{unit}, DefaultSampleType: unit.Type,
		PeriodType: unit, Period: engine.ProfileEvery,
		DurationNanos: int64(p.Seconds * float64(time.Second)),
		Comments:      []string{fmt.Sprintf("%s@%d, %d calls", p.Script, p.Version, p.Calls)},
	}
	file := fmt.Sprintf("%s@%d.lua", p.Script, p.Version)
	locations := map[profiledFrame]*profile.Location{}
	type key struct {
		name   string
		begins int
		file   string
	}
	functions := map[key]*profile.Function{}
	at := func(f profiledFrame) *profile.Location {
		if known := locations[f]; known != nil {
			return known
		}
		k := key{f.Function, f.Begins, file}
		if f.Builtin {
			k.file = ""
		}
		fn := functions[k]
		if fn == nil {
			fn = &profile.Function{ID: uint64(len(functions) + 1), Name: f.Function, SystemName: f.Function, Filename: k.file, StartLine: int64(f.Begins)}
			functions[k] = fn
			out.Function = append(out.Function, fn)
		}
		l := &profile.Location{ID: uint64(len(locations) + 1), Line: []profile.Line{{Function: fn, Line: int64(f.Line)}}}
		locations[f] = l
		out.Location = append(out.Location, l)
		return l
	}
	for _, s := range p.Stacks {
		sample := &profile.Sample{Value: []int64{int64(min(s.Instructions, math.MaxInt64))}}
		for _, f := range s.Frames {
			sample.Location = append(sample.Location, at(f))
		}
		out.Sample = append(out.Sample, sample)
	}
	return out
}
