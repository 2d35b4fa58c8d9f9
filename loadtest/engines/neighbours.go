package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/sdkbuild"
	"github.com/scriptorium-dev/scriptorium/script"
)

// spinModule is a module whose handle never returns.
const spinModule = "\x00asm\x01\x00\x00\x00" +
	"\x01\x0c\x02\x60\x01\x7f\x01\x7f\x60\x02\x7f\x7f\x01\x7e" + // (i32) -> i32, (i32, i32) -> i64
	"\x03\x03\x02\x00\x01" +
	"\x05\x03\x01\x00\x01" + // a page of memory
	"\x07\x27\x03\x06memory\x02\x00\x11scriptorium_alloc\x00\x00\x06handle\x00\x01" +
	"\x0a\x10\x02\x04\x00\x41\x08\x0b\x09\x00\x03\x40\x0c\x00\x0b\x42\x00\x0b" // loop br 0 end

// callers is how many calls a hostile tenant makes at once.
const callers = 4

// sources are the scripts of an agent, by digest.
type sources map[script.Digest][]byte

// Source is cache.Sources'.
func (s sources) Source(_ context.Context, d script.Digest) ([]byte, error) { return s[d], nil }

// add returns a release of the source.
func (s sources) add(name script.Name, engine string, source []byte, limits script.Limits) *cache.Release {
	v := script.Version{Number: 1, Digest: script.DigestOf(source), Engine: engine, Entrypoint: "handle", Size: len(source)}
	s[v.Digest] = source
	return cache.NewRelease(script.Release{
		Name: name, Revision: 1, Active: v, Latest: 1, Enabled: true, Retained: []script.Version{v},
		Settings: script.Settings{Spec: script.Spec{Limits: limits}},
	})
}

// agent is an executor as agents have it.
type agent struct {
	executor *execute.Executor
	programs *cache.Programs
	argument []byte
}

func newAgent(cacheDir string) (*agent, error) {
	set, err := engines.New(engines.Config{CacheDir: cacheDir})
	if err != nil {
		return nil, err
	}
	from, table := sources{}, cache.NewTable()
	long := script.Limits{Instructions: script.MaxLimits().Instructions, Timeout: time.Second}
	table.Update([]*cache.Release{
		from.add(script.Name{Tenant: tenant, Script: transform}, script.EngineLua, task("transform.lua"), script.Limits{}),
		from.add(script.Name{Tenant: "hostile", Script: "lua"}, script.EngineLua, []byte("function handle() while true do end end"), long),
		from.add(script.Name{Tenant: "hostile", Script: "wasm"}, script.EngineWasm, []byte(spinModule), long),
	}, nil)
	a := &agent{argument: task(transform + ".json")}
	a.programs = cache.NewPrograms(cache.Config{Engines: set.ByName(), Sources: from, Budget: 64 << 20})
	a.executor, err = execute.New(execute.Config{Table: table, Programs: a.programs, Position: func(time.Time) gateway.Position { return gateway.Position{Revision: 1} }})
	return a, err
}

// call calls the script that is measured.
func (a *agent) call(ctx context.Context) error {
	return a.executor.Execute(ctx, &gateway.Call{Script: tenant + "/" + transform, Args: [][]byte{a.argument}}, &gateway.Reply{})
}

// spin calls a script that does not end by itself until the context ends.
func (a *agent) spin(ctx context.Context, name string) error {
	var calls errgroup.Group
	for range callers {
		calls.Go(func() error {
			for ctx.Err() == nil {
				err := a.executor.Execute(ctx, &gateway.Call{Script: "hostile/" + name, Args: [][]byte{[]byte("{}")}}, &gateway.Reply{})
				if kind := script.KindOf(err); ctx.Err() == nil && kind != script.Limit && kind != script.Timeout && kind != script.Unavailable {
					return fmt.Errorf("hostile/%s: %w", name, errors.Join(err, errors.New("it did not meet a limit")))
				}
			}
			return nil
		})
	}
	return calls.Wait()
}

// compile compiles a module again and again, as for new versions of it.
func (a *agent) compile(ctx context.Context, module []byte) error {
	for n := 0; ctx.Err() == nil; n++ {
		v := bytes.Clone(module)
		v = append(v, 0, 6, 1, 'n', byte(n>>24), byte(n>>16), byte(n>>8), byte(n)) // a section that nobody reads
		k := cache.KeyOf(script.Version{Digest: script.DigestOf(v), Engine: script.EngineWasm, Entrypoint: "handle"})
		if err := a.programs.Prepare("hostile", k, v, script.Inputs{}, true); err != nil {
			return err
		}
	}
	return nil
}

// neighbours prints the latencies of a Lua script while a tenant of the same agent is hostile.
func neighbours(ctx context.Context, o options, dir string, out, progress io.Writer) error {
	a, err := newAgent(filepath.Join(dir, "agent"))
	if err != nil {
		return err
	}
	defer a.programs.Close()
	type situation struct {
		c       *contestant
		hostile func(context.Context) error
	}
	add := func(name string, hostile func(context.Context) error) situation {
		return situation{&contestant{name: name, call: a.call}, hostile}
	}
	situations := []situation{
		add("quiet", nil),
		add("4 calls of Lua that spin", func(ctx context.Context) error { return a.spin(ctx, "lua") }),
		add("4 calls of a module that spin", func(ctx context.Context) error { return a.spin(ctx, "wasm") }),
	}
	built, err := sdkbuild.Build(ctx, "go")
	switch {
	case errors.Is(err, sdkbuild.ErrNoTool):
		fmt.Fprintln(progress, "engines: no module of Go is compiled:", err)
	case err != nil:
		return err
	default:
		module, err := os.ReadFile(filepath.Join(built, "route.wasm"))
		if err != nil {
			return err
		}
		situations = append(situations, add(fmt.Sprintf("a module of %s is compiled", sizeText(len(module))), func(ctx context.Context) error { return a.compile(ctx, module) }))
	}
	for range o.rounds {
		for _, s := range situations {
			if err := s.c.beside(ctx, o.duration, s.hostile); err != nil {
				return fmt.Errorf("%s: %w", s.c.name, err)
			}
		}
	}
	p99 := func(f figures) time.Duration { return f.p99 }
	quiet := situations[0].c.middle(p99)
	fmt.Fprint(out, "\nA Lua script beside a hostile tenant in the same agent\n\n| beside | p50 | p99 | p99 to quiet |\n|---|---:|---:|---:|\n")
	for _, s := range situations {
		fmt.Fprintf(out, "| %s | %s | %s | %.1f |\n", s.c.name, timeText(s.c.middle(func(f figures) time.Duration { return f.p50 })),
			timeText(s.c.middle(p99)), float64(s.c.middle(p99))/float64(quiet))
	}
	return nil
}

// beside measures while somebody is hostile.
func (c *contestant) beside(ctx context.Context, duration time.Duration, hostile func(context.Context) error) error {
	if hostile == nil {
		return c.measure(ctx, duration)
	}
	busy, cancel := context.WithCancel(ctx)
	defer cancel()
	var other errgroup.Group
	other.Go(func() error { return hostile(busy) })
	err := c.measure(ctx, duration)
	cancel()
	return errors.Join(err, other.Wait())
}
