package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/sdkbuild"
	"github.com/scriptorium-dev/scriptorium/script"
)

const tenant = "acme"

//go:embed testdata
var testdata embed.FS

// The tasks, each with its argument in testdata/TASK.json.
const (
	route     = "route"
	transform = "transform"
)

// candidate is a source of a task.
type candidate struct {
	task, name string
	engine     string
	src        engine.Source
}

// task returns a file of testdata.
func task(name string) []byte {
	data, err := testdata.ReadFile("testdata/" + name)
	if err != nil {
		panic(err) // it is in the binary
	}
	return data
}

// candidates returns the sources. A language whose compiler is missing is left out.
func candidates(ctx context.Context, o options, progress io.Writer) ([]candidate, error) {
	var all []candidate
	for _, t := range []string{route, transform} {
		all = append(all, candidate{task: t, name: "Lua", engine: script.EngineLua, src: engine.Source{Code: task(t + ".lua"), Entrypoint: "handle"}})
		for _, target := range []string{script.RegoTargetInterpreted, script.RegoTargetWasm} {
			c := candidate{task: t, name: "Rego, " + target, engine: script.EngineRego, src: engine.Source{Code: task(t + ".rego")}}
			c.src.Runtime.Rego.Target = target
			all = append(all, c)
		}
	}
	for _, language := range o.languages {
		built, err := sdkbuild.Build(ctx, language)
		if errors.Is(err, sdkbuild.ErrNoTool) {
			fmt.Fprintln(progress, "engines: without", language+":", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, t := range []string{route, transform} {
			code, err := os.ReadFile(filepath.Join(built, t+".wasm"))
			if errors.Is(err, os.ErrNotExist) {
				continue // not every SDK has the transform
			}
			if err != nil {
				return nil, err
			}
			for mode, reuse := range []bool{false, true} {
				c := candidate{task: t, name: language + ", " + []string{"fresh", "pooled"}[mode], engine: script.EngineWasm, src: engine.Source{Code: code}}
				c.src.Runtime.Wasm.Reuse = reuse
				all = append(all, c)
			}
		}
	}
	return all, nil
}

// programs compiles the candidates, and makes sure that all answer the same.
func programs(ctx context.Context, o options, dir string, progress io.Writer) ([]*contestant, error) {
	sources, err := candidates(ctx, o, progress)
	if err != nil {
		return nil, err
	}
	set, err := engines.New(engines.Config{Isolated: true})
	if err != nil {
		return nil, err
	}
	answers := map[string]any{}
	var all []*contestant
	for i, s := range sources {
		fmt.Fprintf(progress, "engines: compiling %s, %s\n", s.task, s.name)
		c, err := s.contestant(ctx, set, o.compiles, filepath.Join(dir, fmt.Sprint("cache", i)), answers)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", s.task, s.name, err)
		}
		all = append(all, c)
	}
	return all, nil
}

func (s *candidate) contestant(ctx context.Context, set *engines.Set, compiles int, cache string, answers map[string]any) (*contestant, error) {
	c := &contestant{task: s.task, name: s.name}
	c.about.source = len(s.src.Code)
	e, err := set.Of(s.engine)
	if err != nil {
		return nil, err
	}
	var program engine.Program
	c.about.compile, err = median(compiles, func() error {
		if program, err = e.Compile(s.src); err != nil {
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.call, err = s.check(ctx, c, program, answers)
	if err != nil {
		return nil, err
	}
	c.about.memory = program.Size()
	c.about.start, err = s.coldStart(ctx, compiles, cache)
	return c, err
}

// check compares the answer with the others, and returns the call.
func (s *candidate) check(ctx context.Context, c *contestant, program engine.Program, answers map[string]any) (func(context.Context) error, error) {
	inv, res := invocation(s.task), &engine.Result{}
	inv.Used = &engine.Used{}
	if err := program.Run(ctx, inv, res); err != nil {
		return nil, err
	}
	c.about.instructions = inv.Used.Instructions
	var got any
	if err := json.Unmarshal(res.Value(0), &got); err != nil {
		return nil, err
	}
	if want, ok := answers[s.task]; !ok {
		answers[s.task] = got
	} else if !reflect.DeepEqual(got, want) {
		return nil, fmt.Errorf("the answer is %v, and the others answer %v", got, want)
	}
	inv.Used = nil
	return func(ctx context.Context) error {
		res.Reset()
		return program.Run(ctx, inv, res)
	}, nil
}

// coldStart measures an engine's first call of a program whose machine code another process has left on disk.
func (s *candidate) coldStart(ctx context.Context, times int, cache string) (time.Duration, error) {
	begin := func() error {
		set, err := engines.New(engines.Config{Isolated: true, CacheDir: cache})
		if err != nil {
			return err
		}
		e, err := set.Of(s.engine)
		if err != nil {
			return err
		}
		program, err := e.Compile(s.src)
		if err != nil {
			return err
		}
		defer program.Close()
		return program.Run(ctx, invocation(s.task), &engine.Result{})
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return 0, err
	}
	if err := begin(); err != nil { // fills the cache
		return 0, err
	}
	return median(times, begin)
}

// invocation returns the call of a task.
func invocation(t string) *engine.Invocation {
	return &engine.Invocation{
		Tenant: tenant, Script: t, Version: 1, Limits: script.MaxLimits(), Args: [][]byte{task(t + ".json")}, Config: task("config.json"),
		Host: &enginetest.Host{Values: map[string]map[string]string{tenant: {"upstreams/cart": "cart-blue"}}},
	}
}

// median returns how long f takes.
func median(times int, f func() error) (time.Duration, error) {
	var took []time.Duration
	for range times {
		began := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return quantile(took, 0.5), nil
}
