package rego

import (
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/scriptorium-dev/scriptorium/script"
)

// bounded refuses policies that would cost the compiler more than a small multiple of their size.
func (s sources) bounded() *script.Error {
	rules := 0
	for _, m := range s.modules {
		for _, r := range m.Rules {
			elses := 0
			for e := r; e != nil; e = e.Else {
				elses++
			}
			if rules += elses; elses > maxElses {
				return at(script.Errorf(script.Limit, "", "the rule has more than %d branches of else: split it", maxElses), r.Location)
			}
		}
		if rules > maxRules {
			return script.Errorf(script.Limit, "source", "the policy has more than %d rules", maxRules)
		}
		path := m.Package.Path
		if len(path) < 2 {
			continue
		}
		if name, _ := path[1].Value.(ast.String); ownDocument(string(name)) {
			return at(script.Errorf(script.Script, "", "the name of a package cannot begin with %s: data.%[1]s is a document of the engine", string(name)), m.Package.Location)
		}
	}
	if e := boundBodies(s.modules); e != nil {
		return compileError(e)
	}
	return nil
}

// The stages of the compiler that bound what the stages after them cost.
var (
	bodiesStage  = ast.CompilerStageDefinition{Name: "BoundBodies", MetricName: "bound_bodies", Stage: func(c *ast.Compiler) *ast.Error { return boundBodies(c.Modules) }}
	graphStage   = ast.CompilerStageDefinition{Name: "BoundGraph", MetricName: "bound_graph", Stage: boundGraph}
	typesStage   = ast.CompilerStageDefinition{Name: "BoundTypes", MetricName: "bound_types", Stage: boundTypes}
	indexesStage = ast.CompilerStageDefinition{Name: "BoundIndexes", MetricName: "bound_indexes", Stage: boundIndexes}
)

// newCompiler returns a compiler that refuses what would cost it too much.
func newCompiler() *ast.Compiler {
	//nolint:staticcheck // capabilities would name the guards to authors
	return ast.NewCompiler().WithBuiltins(declarations(guarded())).WithStageAfterID(ast.StageRewriteRegoMetadataCalls, graphStage).
		WithStageAfterID(ast.StageRewriteWithValues, bodiesStage).
		WithStageAfterID(ast.StageCheckRecursion, typesStage).WithStageAfterID(ast.StageCheckRecursion, indexesStage)
}

// The messages of the stages, which are errors of the kind Limit.
const (
	errBodies  = "the bodies of the rules have too many expressions: split the longest into rules"
	errGraph   = "the rules refer to too many rules: a reference with a variable is to all rules that it may select"
	errTypes   = "the rule's value has too many parts, counting those of the rules that it refers to: split it"
	errIndexes = "the rules of this name refer to too many different values: give those that have little in common different names"
)

// boundBodies bounds the work of putting expressions in order. To find the next expression the compiler looks at all terms of
// all that are left.
func boundBodies(modules map[string]*ast.Module) *ast.Error {
	work := 0
	for _, file := range slices.Sorted(maps.Keys(modules)) {
		var long *ast.Error
		ast.WalkBodies(modules[file], func(b ast.Body) bool {
			terms := 0
			ast.WalkTerms(b, func(*ast.Term) bool {
				terms++
				return false
			})
			if work += len(b) * len(b) * terms; work > maxBodyWork && long == nil {
				long = ast.NewError(ast.CompileErr, b.Loc(), "%s", errBodies)
			}
			return long != nil
		})
		if long != nil {
			return long
		}
	}
	return nil
}

// boundGraph bounds the graph of rules, before the compiler makes it.
func boundGraph(c *ast.Compiler) *ast.Error {
	if edges, last := edgesOf(c); edges > maxGraphEdges {
		return ast.NewError(ast.CompileErr, last.Location, "%s", errGraph)
	}
	return nil
}

// edgesOf counts from how many references to how many rules the graph has edges. If there are too many it stops, and returns
// the rule that it has come to.
func edgesOf(c *ast.Compiler) (edges int, last *ast.Rule) {
	for _, file := range slices.Sorted(maps.Keys(c.Modules)) {
		ast.WalkRules(c.Modules[file], func(r *ast.Rule) bool {
			count := func(ref ast.Ref) bool {
				if edges > maxGraphEdges || !ref.HasPrefix(ast.DefaultRootRef) {
					return edges > maxGraphEdges
				}
				for _, to := range c.GetRulesDynamicWithOpts(ref, ast.RulesOptions{IncludeHiddenModules: true}) {
					for ; to != nil; to = to.Else {
						edges++
					}
				}
				last = r
				return false
			}
			ast.WalkRefs(r.Head, count)
			ast.WalkRefs(r.Body, count) // WalkRules comes to the branches of else
			return edges > maxGraphEdges
		})
	}
	return edges, last
}

// boundIndexes bounds the indexes of rules.
func boundIndexes(c *ast.Compiler) *ast.Error {
	if nodes, largest := indexesOf(c); nodes > maxIndexNodes {
		return ast.NewError(ast.CompileErr, largest.Location, "%s", errIndexes)
	}
	return nil
}

// indexesOf estimates how many nodes the indexes of a policy have at most, and returns the first rule of the largest.
func indexesOf(c *ast.Compiler) (nodes int, largest *ast.Rule) {
	most := 0
	c.RuleTree.DepthFirst(func(node *ast.TreeNode) bool {
		rules, whole := node.Values, false
		if slices.ContainsFunc(rules, func(r *ast.Rule) bool { return !r.Head.Ref().IsGround() }) {
			rules, whole = nil, true // one index has the rules below, too
			node.DepthFirst(func(below *ast.TreeNode) bool {
				rules = append(rules, below.Values...)
				return false
			})
		}
		n := indexNodes(rules)
		nodes += n
		if n > most {
			most, largest = n, rules[0]
		}
		return whole
	})
	return nodes, largest
}

// indexNodes estimates how many nodes the index of rules has at most: the path of each rule may have one for each reference in
// any of them.
func indexNodes(rules []*ast.Rule) int {
	refs, branches := map[string]bool{}, 0
	for _, r := range rules {
		for ; r != nil; r = r.Else {
			branches++
			ast.WalkRefs(r.Body, func(ref ast.Ref) bool {
				if ref.HasPrefix(ast.InputRootRef) || ref.HasPrefix(ast.DefaultRootRef) {
					refs[ref.String()] = true
				}
				return false
			})
		}
	}
	return branches * (1 + len(refs))
}
