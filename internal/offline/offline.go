// Package offline runs scripts on this machine, without an agent: in the engine of agents, and under the same limits. Each
// call has its own clock, random numbers, counters and rate limits, so that no call depends on those before it.
package offline

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Program is a version of a script that is ready to run. It is safe for concurrent use.
type Program struct {
	spec    script.Spec
	number  uint64
	program engine.Program
	source  []byte
	lua     bool
}

// Compile compiles the version. An error is one of the engine's.
func Compile(set *engines.Set, edition *script.Edition) (*Program, error) {
	e, err := set.Of(edition.Engine)
	if err != nil {
		return nil, err
	}
	program, err := e.Compile(engine.Source{Code: edition.Source, Entrypoint: edition.Entrypoint, Libraries: edition.Spec.Libraries, Runtime: edition.Spec.Runtime})
	if err != nil {
		return nil, err
	}
	return &Program{spec: edition.Spec, number: edition.Number, program: program, source: edition.Source, lua: e.Name() == script.EngineLua}, nil
}

// Engine returns the engine's program.
func (p *Program) Engine() engine.Program { return p.program }

// Call is one call of a program.
type Call struct {
	Name       script.Name
	OnResponse bool
	Args       [][]byte
	// Config is what the script sees as config; the version's if nil.
	Config []byte
	// Values are what the script reads with kv.
	Values map[string][]byte
	// Now is the time, which stands still, and Seed is where random numbers begin.
	Now  time.Time
	Seed uint64
	// Once is for calls that are not run again after a timeout; see maxTries.
	Once bool
	// Log gets the lines that the script logged, when the call is over; may be nil.
	Log func(level engine.Level, message string)
	// Read gets what the call has used besides its arguments; may be nil.
	Read map[State]bool
	// Profile is as in engine.Invocation.
	Profile engine.Profiler
	// Used gets how much the call has used; may be nil.
	Used *engine.Used
}

// maxTries is how often a call runs that exceeds its timeout: other calls may be the reason.
const maxTries = 3

// Run runs the call as engine.Program.Run does.
func (p *Program) Run(ctx context.Context, c *Call, res *engine.Result) (err error) {
	config := c.Config
	if config == nil {
		config = p.spec.Config
	}
	tries := maxTries
	if c.Once {
		tries = 1
	}
	var h *host
	for range tries {
		h = &host{call: c, random: rand.NewPCG(c.Seed, 0)}
		inv := engine.Invocation{
			Tenant: c.Name.Tenant, Script: c.Name.Script, Version: p.number, OnResponse: c.OnResponse,
			Args: c.Args, Config: config, Limits: p.spec.Limits, Host: h, Clock: h.clock, Random: h, Used: c.Used, Profile: c.Profile,
		}
		res.Reset()
		if err = p.program.Run(ctx, &inv, res); script.KindOf(err) != script.Timeout || ctx.Err() != nil {
			break
		}
	}
	if p.lua {
		compile.NameStack(err, p.source)
	}
	for _, l := range h.lines { // those of the last try
		c.Log(l.level, l.message)
	}
	return err
}
