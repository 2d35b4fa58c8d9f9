package instrument_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/scriptorium-dev/scriptorium/engine/wasm/instrument"
	"github.com/scriptorium-dev/scriptorium/script"
)

// specCommand is a command of the specification's test suite.
type specCommand struct {
	Type     string     `json:"type"`
	Line     int        `json:"line"`
	Filename string     `json:"filename"`
	Name     string     `json:"name"`
	Action   specAction `json:"action"`
}

type specAction struct {
	Type   string `json:"type"`
	Field  string `json:"field"`
	Module string `json:"module"`
	Args   []struct {
		Type  string `json:"type"`
		Value any    `json:"value"`
		Lane  string `json:"lane_type"`
	} `json:"args"`
}

// args returns the arguments; ok is false if they are of types that this test does not pass.
func (a specAction) args() (args []uint64, ok bool) {
	for _, arg := range a.Args {
		text, isText := arg.Value.(string)
		switch {
		case arg.Type == "externref" && text == "null":
			args = append(args, 0)
			continue
		case arg.Type == "v128", !isText, strings.Contains(text, "nan"), strings.HasSuffix(arg.Type, "ref"):
			return nil, false
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, false
		}
		args = append(args, n)
	}
	return args, true
}

// refusals are why a valid module of the suite may be refused.
var refusals = regexp.MustCompile(`only functions can be imported|the tables have \d+ elements|a constant expression reads a global|the memory begins with \d+ pages|memories: one is supported|the alignment|locals and parameters`)

// specSuites returns the folders of the suites in the runtime's module.
func specSuites(tb testing.TB) []string {
	tb.Helper()
	out, err := exec.CommandContext(tb.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		tb.Fatal(err)
	}
	root := filepath.Join(strings.TrimSpace(string(out)), "internal/integration_test/spectest")
	return []string{filepath.Join(root, "v1/testdata"), filepath.Join(root, "v2/testdata")}
}

// TestSpecification rewrites all modules of the specification's test suite, and compares what they do with what the
// originals do.
func TestSpecification(t *testing.T) {
	var files []string
	for _, dir := range specSuites(t) {
		found, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if err != nil || len(found) < 50 {
			t.Fatalf("%d suites in %s, %v", len(found), dir, err)
		}
		files = append(files, found...)
	}
	var total specSuite
	refused := map[string]int{}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(filepath.Dir(file)))+"/"+filepath.Base(file), func(t *testing.T) {
			s := specSuite{dir: filepath.Dir(file), refused: refused}
			s.run(t, file)
			total.modules += s.modules
			total.invalid += s.invalid
			total.actions += s.actions
		})
	}
	t.Logf("%d modules, %d calls compared, %d invalid modules; refused: %v", total.modules, total.actions, total.invalid, refused)
	if total.modules < 1500 || total.actions < 20000 || total.invalid < 1000 {
		t.Error("too few")
	}
}

type specSuite struct {
	dir                       string
	modules, actions, invalid int
	refused                   map[string]int
	original, rewritten       api.Module
}

func (s *specSuite) run(t *testing.T, file string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var suite struct{ Commands []specCommand }
	if err := json.Unmarshal(content, &suite); err != nil {
		t.Fatal(err)
	}
	h := newHost(t)
	h.left.Store(1 << 50)
	specModule(t, h)
	for _, c := range suite.Commands {
		switch c.Type {
		case "module":
			s.module(t, h, c)
		case "assert_malformed", "assert_invalid":
			if strings.HasSuffix(c.Filename, ".wasm") {
				s.malformed(t, h, c)
			}
		case "assert_return", "assert_trap", "action":
			if s.original != nil && c.Action.Type == "invoke" && c.Action.Module == "" {
				s.invoke(t, c)
			}
		}
	}
}

func (s *specSuite) module(t *testing.T, h *host, c specCommand) {
	t.Helper()
	s.original, s.rewritten = nil, nil
	code, err := os.ReadFile(filepath.Join(s.dir, c.Filename))
	if err != nil {
		t.Fatal(err)
	}
	original, err := h.runtime.CompileModule(t.Context(), code)
	if err != nil {
		t.Fatalf("%s: %v", c.Filename, err)
	}
	m, err := instrument.Rewrite(code, instrument.Options{MaxMemoryPages: 1 << 16})
	if err != nil {
		why := refusals.FindString(err.Error())
		if kind := script.KindOf(err); why == "" || kind != script.Script && kind != script.Limit {
			t.Errorf("%s: %v", c.Filename, err)
		}
		s.refused[why]++
		return
	}
	s.modules++
	rewritten, err := h.runtime.CompileModule(t.Context(), m.Code)
	if err != nil {
		t.Fatalf("%s is refused when rewritten: %v", c.Filename, err)
	}
	a, errA := h.runtime.InstantiateModule(t.Context(), original, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	b, errB := h.runtime.InstantiateModule(t.Context(), rewritten, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if errA == nil && errB == nil {
		s.original, s.rewritten = a, b
	} else if firstLine(errA) != firstLine(errB) {
		t.Errorf("%s: instantiate: %v, rewritten %v", c.Filename, errA, errB)
	}
}

func (s *specSuite) malformed(t *testing.T, h *host, c specCommand) {
	t.Helper()
	code, err := os.ReadFile(filepath.Join(s.dir, c.Filename))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.runtime.CompileModule(t.Context(), code); err == nil {
		return // the runtime is not as strict as the specification
	}
	s.invalid++
	m, err := instrument.Rewrite(code, options)
	if err != nil {
		if script.KindOf(err) != script.Script && script.KindOf(err) != script.Limit {
			t.Errorf("%s: %v", c.Filename, err)
		}
		return
	}
	if _, err := h.runtime.CompileModule(t.Context(), m.Code); err == nil {
		t.Errorf("line %d, %s: the runtime refuses it, and takes it rewritten", c.Line, c.Filename)
	}
}

func (s *specSuite) invoke(t *testing.T, c specCommand) {
	t.Helper()
	args, ok := c.Action.args()
	f := s.original.ExportedFunction(c.Action.Field)
	if !ok || f == nil || strings.Contains(c.Action.Field, "runaway") {
		return
	}
	if len(args) != len(f.Definition().ParamTypes()) {
		return
	}
	want, wantErr := f.Call(t.Context(), args...)
	got, _, err := call(t, s.rewritten, 1<<40, c.Action.Field, args...)
	if slices.Contains(f.Definition().ResultTypes(), api.ValueType(instrument.FuncRef)) {
		want, got = nil, nil // addresses
	}
	if !slices.Equal(want, got) || firstLine(wantErr) != firstLine(err) {
		t.Errorf("line %d: %s%v: %v, %v; rewritten %v, %v", c.Line, c.Action.Field, args, want, wantErr, got, err)
	}
	s.actions++
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(fmt.Sprint(err), "\n")
	return line
}

// specModule is what modules of the suite import.
func specModule(t *testing.T, h *host) {
	t.Helper()
	b := h.runtime.NewHostModuleBuilder("spectest")
	i32, i64, f32, f64 := api.ValueTypeI32, api.ValueTypeI64, api.ValueTypeF32, api.ValueTypeF64
	for name, params := range map[string][]api.ValueType{
		"print": nil, "print_i32": {i32}, "print_i64": {i64}, "print_f32": {f32}, "print_f64": {f64}, "print_i32_f32": {i32, f32}, "print_f64_f64": {f64, f64},
	} {
		b = b.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(context.Context, []uint64) {}), params, nil).Export(name)
	}
	if _, err := b.Instantiate(t.Context()); err != nil {
		t.Fatal(err)
	}
}
