// Package enginetest is the conformance suite of engines: what engine.Engine
// and engine.Program promise, tested with programs that the engine's author
// writes in its language.
package enginetest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Entrypoint is the function that a Dialect's programs define.
const Entrypoint = "handle"

// Dialect holds the suite's programs in one language. Each defines a function
// "handle", unless it says otherwise. A program that the language cannot say is
// empty: what is tested with it alone is skipped.
type Dialect struct {
	Name string // what Engine.Name returns

	// OneArgument: a call has one argument and one result at most.
	OneArgument bool
	// Opaque: programs are no text, and get and return JSON as it is written. The engine
	// does not read its numbers, and knows no strings of theirs.
	Opaque bool

	// Declarative: programs are expressions. A call always has a result, of which objects have
	// their members sorted, and strings have no bound of their own.
	Declarative bool

	// EchoInstructions are enough for Echo with a short argument; 0 means 1000.
	EchoInstructions uint64

	Echo       string // returns its arguments, as many as there are
	Constant   string // returns the number 42
	Count      string // adds one to a global that starts at zero, and returns it
	Config     string // returns the global config
	ConfigKeep string // sets config.kept to 1 if it is not set, and returns what it was before

	Fail     string // raises an error with the text "boom"
	FailLine int    // the line of Fail that raises it

	Spin       string // loops without end
	SpinCaught string // loops without end, catching each error within the loop
	Recurse    string // calls itself without end
	SpinLoad   string // loops without end before it defines handle, while being loaded

	Repeat      string // returns a string of as many "x" as its argument says
	Unencodable string // returns what JSON cannot say
	Cycle       string // returns a value that contains itself

	// What the agent lends, see engine.Host.
	Log   string // logs its argument, a text, at the level info
	Value string // returns the value with the key that is its argument, as text, or null
	Tally string // adds one to the counter "calls", and returns what it is then
	Take  string // takes a token of the bucket "calls", which holds two, and returns whether there was one

	Chunk      string // no entrypoint: returns the global obj
	ChunkTwice string // no entrypoint: returns the numbers 1 and 2

	Broken       string // does not compile
	BrokenLine   int
	NoEntrypoint string // compiles, but never defines handle
}

// Run runs the suite. newEngine returns an engine for one test.
func Run(t *testing.T, newEngine func() engine.Engine, d Dialect) {
	t.Helper()
	s := &suite{newEngine: newEngine, Dialect: d}
	t.Run("Name", s.testName)
	t.Run("Check", s.testCheck)
	t.Run("CompileKeepsNoSource", s.testCompileKeepsNoSource)
	t.Run("RoundTrip", s.testRoundTrip)
	t.Run("SeveralValues", s.testSeveralValues)
	t.Run("Appends", s.testAppends)
	t.Run("BadArguments", s.testBadArguments)
	t.Run("Chunk", s.testChunk)
	t.Run("Config", s.testConfig)
	t.Run("FreshEnvironment", s.testFreshEnvironment)
	t.Run("Host", s.testHost)
	t.Run("NoHost", s.testNoHost)
	t.Run("ScriptError", s.testScriptError)
	t.Run("Instructions", s.testInstructions)
	t.Run("Timeout", s.testTimeout)
	t.Run("Context", s.testContext)
	t.Run("Results", s.testResults)
	t.Run("Recovers", s.testRecovers)
	t.Run("Concurrent", s.testConcurrent)
	t.Run("Close", s.testClose)
	t.Run("NoGoroutineStays", s.testNoGoroutineStays)
}

type suite struct {
	Dialect
	newEngine func() engine.Engine
}

// compile compiles source with the entrypoint.
func (s *suite) compile(t *testing.T, e engine.Engine, source, entrypoint string) engine.Program {
	t.Helper()
	p, err := e.Compile(engine.Source{Code: []byte(source), Entrypoint: entrypoint})
	if err != nil {
		t.Fatalf("Compile: %v\n%s", err, source)
	}
	t.Cleanup(p.Close)
	return p
}

// program compiles source with an engine of its own.
func (s *suite) program(t *testing.T, source string) engine.Program {
	t.Helper()
	return s.compile(t, s.newEngine(), source, Entrypoint)
}

// invocation returns a call of the tenant "acme" with the arguments.
func invocation(args ...string) *engine.Invocation {
	inv := &engine.Invocation{Tenant: "acme"}
	inv.Limits.Timeout = script.MaxLimits().Timeout // the machine may be busy
	for _, arg := range args {
		inv.Args = append(inv.Args, []byte(arg))
	}
	return inv
}

// call runs p and returns its results as text.
func call(t *testing.T, p engine.Program, inv *engine.Invocation) ([]string, error) {
	t.Helper()
	var res engine.Result
	err := p.Run(t.Context(), inv, &res)
	if err != nil && res.Len() != 0 {
		t.Errorf("after an error the result holds %d values", res.Len())
	}
	return values(&res), err
}

func values(res *engine.Result) []string {
	texts := []string{}
	for i := range res.Len() {
		texts = append(texts, string(res.Value(i)))
	}
	return texts
}

// written returns a result as the language writes it.
func (s *suite) written(value string) string {
	if !s.Declarative || !strings.HasPrefix(value, "{") {
		return value
	}
	var v any
	d := json.NewDecoder(strings.NewReader(value))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return value
	}
	sorted, err := json.Marshal(v)
	if err != nil {
		return value
	}
	return string(sorted)
}
