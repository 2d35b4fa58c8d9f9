// Package rules tests the rules for the source tree, such as which packages may import
// which, and how large a file may be. docs/architecture.md says why.
package rules_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/scriptorium-dev/scriptorium"

type pkg struct {
	ImportPath string
	Imports    []string
	Standard   bool
}

// dir returns the package's folder in the module: "" for the root, and for other modules.
func (p pkg) dir() string { return inModule(p.ImportPath) }

func inModule(path string) string {
	dir, ok := strings.CutPrefix(path, module+"/")
	if !ok {
		return ""
	}
	return dir
}

// under reports whether dir is one of the roots or below one.
func under(dir string, roots ...string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return dir == root || strings.HasPrefix(dir, root+"/")
	})
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Standard", "./...")
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

const root = "../.."

// TestImports holds the rules between our own packages. Tests may import what
// they like.
func TestImports(t *testing.T) {
	rules := []struct {
		from  []string // folders the rule is for
		never []string // folders they do not import
		why   string
	}{
		{
			from:  []string{"script"},
			never: []string{"engine", "proto", "registry", "agent", "client", "operator", "internal", "cmd"},
			why:   "everyone speaks in its words, so it depends on nobody",
		},
		{
			from:  []string{"engine"},
			never: []string{"proto", "registry", "agent", "client", "operator", "internal", "cmd"},
			why:   "an engine runs programs and knows nothing of where they come from",
		},
		{
			from:  []string{"proto"},
			never: []string{"engine", "registry", "agent", "client", "operator", "internal", "cmd"},
			why:   "the wire contract is below both of its ends",
		},
		{
			from:  []string{"registry"},
			never: []string{"agent", "operator", "client"},
			why:   "registry and agent meet on the wire alone",
		},
		{
			from:  []string{"registry/rollout", "registry/gate"},
			never: []string{"proto", "registry/etcdstore", "registry/fanout", "registry/feed", "registry/memstore", "registry/mirror", "registry/rpc"},
			why:   "it goes by what the fleet says alone, and writes as everyone does",
		},
		{
			from:  []string{"registry/fleet"},
			never: []string{"registry/rollout", "registry/gate"},
			why:   "what is known of the fleet does not depend on what is made of it",
		},
		{
			from:  []string{"registry", "agent", "operator"},
			never: []string{"engine/lua", "engine/wasm"},
			why:   "which engines there are is decided where a process is put together",
		},
		{
			from:  []string{"agent"},
			never: []string{"registry", "operator", "client"},
			why:   "registry and agent meet on the wire alone",
		},
		{
			from:  []string{"agent/gateway"},
			never: []string{"agent/follow", "agent/store", "agent/cache", "agent/execute", "agent/decisionlog"},
			why:   "a protocol sees an Executor and nothing behind it",
		},
		{
			from:  []string{"client"},
			never: []string{"registry", "agent", "operator"},
			why:   "what others import must not bring our servers with it",
		},
		{
			from:  []string{"operator", "cmd/scriptctl", "internal/scriptctl"},
			never: []string{"registry", "agent"},
			why:   "they reach the registry through client",
		},
		{
			from:  []string{"script", "engine", "proto", "registry", "agent", "client"},
			never: []string{"internal", "cmd"},
			why:   "only cmd, internal and embed put the parts together",
		},
		{
			from:  []string{"script", "engine", "proto", "registry", "agent", "client", "operator"},
			never: []string{"embed"},
			why:   "embed puts the parts together, for programs of others",
		},
		{
			from:  []string{"embed", "internal/node"},
			never: []string{"registry", "operator", "cmd", "agent/gateway/grpcsock", "agent/gateway/httpsock", "agent/gateway/respsock", "agent/gateway/spopsock"},
			why:   "a program with an agent in it brings no server with it",
		},
	}
	for _, p := range packages(t) {
		for _, rule := range rules {
			if !under(p.dir(), rule.from...) {
				continue
			}
			for _, imported := range p.Imports {
				if dir := inModule(imported); dir != "" && under(dir, rule.never...) && !under(dir, rule.from...) {
					t.Errorf("%s imports %s: %s", p.dir(), dir, rule.why)
				}
			}
		}
	}
}

// TestOwners: a dependency has one owner, or few, so that it can be replaced, and its
// quirks are known in one place.
func TestOwners(t *testing.T) {
	owners := map[string][]string{
		"github.com/cespare/xxhash":          {"agent/cache"},
		"connectrpc.com/connect":             {"internal/console"}, // browsers alone speak it
		"github.com/coreos/go-oidc":          {"registry/issuer", "internal/console"},
		"golang.org/x/oauth2":                {"internal/console"},
		"github.com/envoyproxy":              {"agent/gateway/envoy"},
		"go.etcd.io/etcd/client/v3":          {"registry/etcdstore", "internal/embedded/etcdtest"},
		"go.etcd.io/etcd/server/v3":          {"internal/embedded"},
		"github.com/nats-io/nats.go":         {"registry/fanout", "agent/follow", "agent/decisionlog/natssink", "proto/natsconn"},
		"github.com/nats-io/nats-server":     {"internal/embedded"},
		"github.com/tetratelabs/wazero":      {"engine/wasm"},
		"github.com/http-wasm":               {"engine/wasm/httpwasm"}, // names and numbers alone: its host bounds nothing
		"github.com/yuin/gopher-lua":         {"engine/lua"},
		"github.com/open-policy-agent/opa":   {"engine/rego"},
		"github.com/hashicorp/golang-lru":    {"agent/cache", "registry"},
		"github.com/opencontainers":          {"registry/artifact", "internal/artifacttest"},
		"oras.land/oras-go":                  {"registry/artifact", "internal/artifacttest"}, // which alone knows what may be connected to
		"sigs.k8s.io/controller-runtime":     {"operator", "internal/operatord", "deploy/validate", "e2e"},
		"go.opentelemetry.io/otel/sdk":       {"internal/tracing", "internal/otlplogs", "internal/otelenv", "agent/decisionlog/otlpsink"},
		"go.opentelemetry.io/otel/exporters": {"internal/tracing", "internal/otlplogs"},
		"go.opentelemetry.io/proto":          {"internal/tracing/tracetest", "internal/otlplogs/logcollector", "internal/demo"},
		"golang.org/x/perf":                  {"internal/scriptbench"},
		"k8s.io":                             {"internal/kubeforward", "operator", "internal/operatord", "deploy/validate", "e2e"},
	}
	for _, p := range packages(t) {
		for _, imported := range p.Imports {
			for dependency, allowed := range owners {
				if under(imported, dependency) && !under(p.dir(), allowed...) {
					t.Errorf("%s imports %s, which belongs to %v", p.dir(), imported, allowed)
				}
			}
		}
	}
}

// TestScriptImportsTheStandardLibraryAlone: see package script.
func TestScriptImportsTheStandardLibraryAlone(t *testing.T) {
	for _, p := range packages(t) {
		if p.dir() != "script" {
			continue
		}
		for _, imported := range p.Imports {
			if strings.Contains(strings.Split(imported, "/")[0], ".") {
				t.Errorf("script imports %s", imported)
			}
		}
	}
}

// TestRooms: a package says by its name what is in it, and a file fits a head.
func TestRooms(t *testing.T) {
	const longest = 500
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "bin" || name == "testdata" || name == "node_modules") {
				return filepath.SkipDir
			}
			if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "misc", "shared"}, name) {
				t.Errorf("%s: the name says nothing of what is in it", path)
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, ".pb.go") || strings.HasPrefix(name, "zz_generated.") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if lines := bytes.Count(text, []byte("\n")); lines > longest {
			t.Errorf("%s has %d lines; at most %d", path, lines, longest)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestWaits: no test waits by the bare statement <-time.After(d), but for files that use
// the clock of testing/synctest. It is for those who would get around the lint that
// forbids time.Sleep without a thought, not for those who want to.
func TestWaits(t *testing.T) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		fakes := slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` })
		timeouts := map[ast.Node]bool{} // of a select, which waits for something else
		for node := range ast.Preorder(file) {
			if clause, ok := node.(*ast.CommClause); ok {
				timeouts[clause.Comm] = true
			}
			if !fakes && !timeouts[node] && isWait(node) {
				t.Errorf("%s waits for no event, on a real clock", files.Position(node.Pos()))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// isWait reports whether node is the statement <-time.After(d).
func isWait(node ast.Node) bool {
	statement, ok := node.(*ast.ExprStmt)
	if !ok {
		return false
	}
	receive, ok := statement.X.(*ast.UnaryExpr)
	if !ok || receive.Op != token.ARROW {
		return false
	}
	call, ok := receive.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := function.X.(*ast.Ident)
	return ok && pkg.Name == "time" && function.Sel.Name == "After"
}
