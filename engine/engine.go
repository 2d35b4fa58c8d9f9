// Package engine declares what compiles tenants' sources and runs the programs
// that come of it. There is one engine a language; engine/lua is the first.
// Package enginetest holds the conformance suite that every engine passes.
//
// The control plane gets a Checker, which never runs a tenant's code. Only
// agents and scriptctl may run programs.
package engine

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Checker says whether sources of one language compile. It is all that the
// control plane gets of an engine, so that it cannot run a tenant's code. It is
// safe for concurrent use.
type Checker interface {
	// Name is what a version's engine field says: "lua".
	Name() string

	// Check reports whether src compiles, without running any of it, in time
	// and memory bounded by a small multiple of the source's size. A source
	// that does not compile yields a *script.Error of kind script.Script with
	// line and, where known, column; one that is over a bound of the compiler,
	// of kind script.Limit; one that is not text, of kind script.Invalid.
	Check(src Source) error
}

// Requirer is a Checker of a language in which sources require others. It is all that a registry
// knows of modules.
type Requirer interface {
	// Requires returns the calls of require in src whose modules the engine does not have itself, in
	// the order of their lines. It runs nothing. Its errors are those of Check.
	Requires(src Source) ([]Require, error)
}

// Require is a call that asks for a module by a name.
type Require struct {
	Name     string
	Constant bool // the source says the name; else Name is empty
	Line     int
}

// Engine compiles sources of one language. It is safe for concurrent use.
type Engine interface {
	Checker

	// Compile is Check, and returns the program. It keeps no reference to
	// src.Code.
	Compile(src Source) (Program, error)
}

// Source is what is compiled. It names neither tenant nor script: equal sources
// of two tenants may share one program, and no name may leak from one to the
// other.
type Source struct {
	Code []byte
	// Entrypoint is the function that is called. If empty, the chunk itself is
	// the program: see Program.Run.
	Entrypoint string
	// Library: the chunk has to return something, for others to require.
	Library bool
	// Libraries are what the source can require, beside what the engine has. Their names are the tenant's,
	// so programs with libraries are of one tenant.
	Libraries []script.Library
	// Runtime holds the options of the version's engine.
	Runtime script.Runtime
}

// OnResponse is the name of the function that is called with a gateway's request and the response
// to it, if a program with an entrypoint defines it.
const OnResponse = "on_response"

// Program is a compiled source. It is immutable and safe for concurrent use.
type Program interface {
	// Run executes the program once and appends what it returns to res, each
	// value as JSON. Each call starts from a fresh environment: nothing that an
	// earlier call did can be seen.
	//
	// With an entrypoint, the chunk is executed and the function of that name
	// called with the arguments. Without one, the single argument must be a
	// JSON object (or there is no argument): its members are set as globals,
	// and what the chunk returns is the result.
	//
	// The call is bounded by inv.Limits and by ctx. Errors are *script.Error of
	// kind Script (the script raised an error, in which case Line is set where
	// known, or returned what JSON cannot say), Limit (results that are too large
	// or nested too deep are among them), Timeout, Invalid (an argument or the
	// config is not what it must be; never a result) or Internal (a fault of the
	// engine; its cause does not travel).
	// After an error res holds nothing. Run never panics, and returns soon
	// after a bound is met whatever the script does.
	Run(ctx context.Context, inv *Invocation, res *Result) error

	// OnResponse reports whether the chunk may define a function that answers calls with
	// Invocation.OnResponse. Without an entrypoint it does not.
	OnResponse() bool

	// Size estimates the bytes of memory that the program holds. What an engine
	// pools between calls is not the program's.
	Size() int

	// Close ends the program's part in what the engine pools. Calls in flight
	// finish; a later Run still works but pools nothing.
	Close()
}

// Invocation is one call. The engine only reads it, and keeps no reference to
// it after Run returns.
type Invocation struct {
	// Tenant owns the script. States are pooled by tenant and never serve two.
	Tenant string
	// OnResponse calls the global function of the name OnResponse in place of the entrypoint. If the
	// chunk defines none, it is executed all the same, and there are no results.
	OnResponse bool
	// Args are the positional arguments, each a JSON value.
	Args [][]byte
	// Config is a JSON object that the program sees as the global `config`, read
	// afresh at each call; nil means {}.
	Config []byte
	// Limits bound the call; zero fields mean their defaults.
	Limits script.Limits
	// Memory is how many bytes the calls of the tenant that run may have allocated
	// together, what they have dropped included; 0 means any number.
	Memory int64

	// Script, Version and Traceparent say what is called and for whom, for Host. The
	// program can read none of them.
	Script      string
	Version     uint64
	Traceparent string // the caller's W3C trace context, or ""
	// Host is what the program may use of the agent; nil if there is none: logs then
	// go nowhere, and what else needs it is an error of the script.
	Host Host
	// Turn is the call's turn on a processor; nil if it need not share.
	Turn Turn
	// Profile gets samples of where the call spends its instructions; nil if nobody wants any.
	Profile Profiler
	// Used gets what the call has used, also if it fails; nil if nobody wants to know.
	Used *Used
	// Clock tells the program the time, which stands still during the call; nil means the node's
	// clock, which bounds the call in either case.
	Clock func() time.Time
	// Random is what all random numbers and bytes come from that the program gets; nil means the
	// process's sources.
	Random rand.Source
}

// Used is what one call has used.
type Used struct {
	Instructions uint64
	// Allocated is an estimate of the bytes that the call allocated, those that it dropped included.
	Allocated uint64
}
