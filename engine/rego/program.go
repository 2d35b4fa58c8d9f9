package rego

import (
	"context"
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/topdown/print"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// program is a policy that the interpreter runs.
type program struct {
	policy *policy
	store  *store
	guards map[string]*topdown.Builtin
	form   string // of the input
	size   int
}

func newProgram(p *policy, src engine.Source) *program {
	guardCalls(p.compiler.Modules)
	made, bytes := p.specialize()
	nodes, _ := indexesOf(made.compiler)
	edges, _ := edgesOf(made.compiler)
	return &program{
		policy: made, store: &store{base: p.data}, guards: guarded(), form: src.Runtime.Rego.Input, size: sizeOf(len(src.Code)+bytes) + nodes*indexNodeBytes + edges*graphEdgeBytes,
	}
}

// How large a node of an index of rules is, and an edge of the graph of rules.
const (
	indexNodeBytes = 100
	graphEdgeBytes = 100
)

// sizeOf estimates what a compiled policy holds: trees are about this many times as large as their text.
func sizeOf(text int) int {
	const fixed, times = 64 << 10, 60
	return fixed + times*text
}

// Target says how the policy runs: "wasm" or "interpreted".
func (*program) Target() string { return script.RegoTargetInterpreted }

// OnResponse is engine.Program's.
func (p *program) OnResponse() bool { return p.policy.onResponse != nil }

// Size is engine.Program's.
func (p *program) Size() int { return p.size }

// Close is engine.Program's.
func (*program) Close() {}

// Run is engine.Program's.
func (p *program) Run(ctx context.Context, inv *engine.Invocation, res *engine.Result) error {
	if err := p.run(ctx, inv, res); err != nil {
		res.Reset()
		return err
	}
	return nil
}

// run is one call. Whatever happens in it ends in an error.
func (p *program) run(ctx context.Context, inv *engine.Invocation, res *engine.Result) (err error) {
	c := call{inv: inv}
	limits := inv.Limits.OrDefaults()
	c.meter.begin(ctx, inv, limits)
	defer func() {
		if r := recover(); r != nil {
			err = &script.Error{Kind: script.Internal, Message: "the evaluation of the policy failed", Err: fmt.Errorf("panic: %v", r)}
		}
		if inv.Used != nil {
			inv.Used.Instructions = c.meter.used
		}
	}()
	if ctx.Err() != nil {
		return late(ctx.Err())
	}
	q := &p.policy.main
	if inv.OnResponse {
		if q = p.policy.onResponse; q == nil {
			return nil
		}
	}
	input, err := inputOf(inv, p.form)
	if err != nil {
		return err
	}
	result, err := p.eval(&c, q, input)
	if err != nil {
		return err
	}
	if result == nil {
		if inv.OnResponse {
			return nil
		}
		return c.undefined(q)
	}
	return finish(inv, p.form, result, res, limits.ResultBytes)
}

// call is what the evaluator needs of one call.
type call struct {
	inv    *engine.Invocation
	meter  meter
	txn    transaction
	errs   []topdown.Error // of builtins, which make an expression undefined
	result *ast.Term
}

// eval returns the value of the rule, nil if it is undefined.
func (p *program) eval(c *call, q *query, input ast.Value) (ast.Value, error) {
	c.txn = transaction{meter: &c.meter, inv: c.inv}
	t := topdown.NewQuery(q.body).WithQueryCompiler(q.compiler).WithCompiler(p.policy.compiler).WithStore(p.store).WithTransaction(&c.txn).
		WithCancel(&c.meter).WithTime(clockOf(c.inv)).WithPrintHook(printer{c.inv}).WithBuiltinErrorList(&c.errs).WithSeed(randomOf{c.inv}).WithBuiltins(p.guards)
	if input != nil {
		t = t.WithInput(ast.NewTerm(input))
	}
	err := t.Iter(c.meter.ctx, func(r topdown.QueryResult) error {
		c.result = r[resultVar]
		return nil
	})
	if err != nil || c.meter.stopped != nil {
		return nil, c.meter.runError(err)
	}
	if c.result == nil {
		return nil, nil
	}
	return c.result.Value, nil
}

// undefined is the error of a call that has no result. A gateway takes an empty result for permission, so there is none.
func (c *call) undefined(q *query) *script.Error {
	if len(c.errs) == 0 {
		return undefined(q.path, "")
	}
	return at(undefined(q.path, c.errs[0].Message), c.errs[0].Location)
}

func undefined(path, failed string) *script.Error {
	if failed == "" {
		return script.Errorf(script.Script, "", "the rule %s is undefined for this input: add a default, such as default allow := false", path)
	}
	return script.Errorf(script.Script, "", "the rule %s is undefined for this input, and a function failed: %s", path, clip(failed))
}

// printer logs what the policy prints.
type printer struct{ inv *engine.Invocation }

// Print is print.Hook's.
func (p printer) Print(_ print.Context, message string) error {
	if p.inv.Host != nil {
		p.inv.Host.Log(p.inv, engine.Info, message)
	}
	return nil
}

// randomOf is what rand.intn and uuid.rfc4122 get their random bytes from.
type randomOf struct{ inv *engine.Invocation }

// Read is io.Reader's.
func (r randomOf) Read(p []byte) (int, error) { return randomBytes(r.inv.Random, p) }

// inputOf returns the document input: the argument, null if there is none. The rule on_response gets both of its arguments
// as one object.
func inputOf(inv *engine.Invocation, form string) (ast.Value, error) {
	if inv.OnResponse && len(inv.Args) == 2 {
		request, err := argument(inv, 0)
		if err != nil {
			return nil, err
		}
		response, err := argument(inv, 1)
		if err != nil {
			return nil, err
		}
		return ast.NewObject(item("request", request), item("response", response)), nil
	}
	switch len(inv.Args) {
	case 0:
		return ast.NullValue, nil
	case 1:
		v, err := argument(inv, 0)
		if err == nil && form == script.RegoInputEnvoy && !inv.OnResponse {
			return envoyInput(v)
		}
		return v, err
	}
	return nil, script.Errorf(script.Invalid, "args", "a policy takes one argument, not %d: put them into one array or object", len(inv.Args))
}

// inputText is inputOf as JSON, for a module.
func inputText(inv *engine.Invocation, form string) ([]byte, error) {
	v, err := inputOf(inv, form)
	if err != nil {
		return nil, err
	}
	if len(inv.Args) == 1 && (form == "" || inv.OnResponse) {
		return inv.Args[0], nil
	}
	e := encoder{nodes: 4 * maxNodes, limit: 16 * maxValuesBytes}
	return e.value(nil, v, 2*maxDepth)
}

// finish appends what the rule's value stands for.
func finish(inv *engine.Invocation, form string, v ast.Value, res *engine.Result, most int) error {
	if form == script.RegoInputEnvoy && !inv.OnResponse {
		var err error
		if v, err = envoyDecision(v); err != nil {
			return err
		}
	}
	return appendResult(res, v, most)
}

func argument(inv *engine.Invocation, i int) (ast.Value, error) {
	v, err := decode(inv.Args[i], maxNodes)
	if err != nil {
		return nil, script.Errorf(script.Invalid, fmt.Sprintf("args[%d]", i), "%w", err)
	}
	return v, nil
}
