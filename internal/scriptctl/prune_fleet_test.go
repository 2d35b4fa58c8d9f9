package scriptctl_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
)

// TestApplyIsInterrupted: an apply with --prune ends right after its scripts were published, because of Ctrl-C or of a
// registry that is gone. What it would have deleted stays, and so does what was published. The same command does the rest.
func TestApplyIsInterrupted(t *testing.T) {
	stack, dir := startStack(t, 1)
	for name, interrupt := range map[string]func(t *testing.T, stack *local.Stack, cancel func()){
		"sigint":   func(_ *testing.T, _ *local.Stack, cancel func()) { cancel() },
		"registry": func(t *testing.T, stack *local.Stack, _ func()) { t.Helper(); stopRegistry(t, stack) },
	} {
		t.Run(name, func(t *testing.T) {
			p, folder := person{t, dir}, t.TempDir()
			write := func(file, text string) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			script := func(script, result string) {
				t.Helper()
				write(script+".yaml", "apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\nmetadata: {name: "+script+
					"}\nspec: {tenantId: "+name+", source: \"function handle() return "+result+" end\"}\n")
			}
			write(".scriptorium.yaml", "project: shop\n")
			for _, s := range []string{"kept", "old", "older", "also"} {
				script(s, "1")
			}
			p.must("apply", "-f", folder, "--yes", "--wait")
			script("kept", "2")
			script("new", "1")
			for _, s := range []string{"old", "older"} {
				if err := os.Remove(filepath.Join(folder, s+".yaml")); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var problems bytes.Buffer
			code := scriptctl.Run(ctx, scriptctl.Streams{In: strings.NewReader(""), Out: &onOutput{"published", func() { interrupt(t, stack, cancel) }}, Err: &problems},
				[]string{"apply", "-f", folder, "--prune", "--yes", "--registry", "unix:" + filepath.Join(dir, "registry.sock")})
			says := problems.String()
			if code != 5 || strings.Count(says, "error: ") != 1 || !strings.Contains(says, "not deleted either: "+name+"/older") ||
				!strings.Contains(says, "part of the plan failed: run the same command again to do the rest") {
				t.Errorf("exit code %d, want 5 and one error:\n%s", code, says)
			}
			if name == "registry" {
				if err := stack.StartRegistry(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range []string{"kept", "new", "old", "older", "also"} {
				p.must("get", name+"/"+s) // nothing was deleted, and all was published
			}
			if out := p.must("apply", "-f", folder, "--prune", "--yes", "--wait"); !strings.Contains(out, name+"/old deleted") || !strings.Contains(out, name+"/older deleted") {
				t.Errorf("the second apply: %s", out)
			}
			if out := p.must("apply", "-f", folder, "--prune", "--yes"); !strings.Contains(out, "nothing to do") {
				t.Errorf("the third apply: %s", out)
			}
			list := p.must("list", name)
			for s, want := range map[string]bool{"kept": true, "new": true, "also": true, "old": false, "older": false} {
				if strings.Contains(list, name+"/"+s+" ") != want {
					t.Errorf("%s is there: %t, want %t:\n%s", s, !want, want, list)
				}
			}
		})
	}
}

func stopRegistry(t *testing.T, stack *local.Stack) {
	t.Helper()
	if err := stack.StopRegistry(t.Context()); err != nil {
		t.Error(err)
	}
}

// onOutput calls do at the first output with the text.
type onOutput struct {
	text string
	do   func()
}

var _ io.Writer = (*onOutput)(nil)

func (o *onOutput) Write(data []byte) (int, error) {
	if o.do != nil && bytes.Contains(data, []byte(o.text)) {
		o.do()
		o.do = nil
	}
	return len(data), nil
}
