package editions_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/toolcache"
	"github.com/scriptorium-dev/scriptorium/operator/testenv"
)

var before = flag.String("editions.before", "", "commit of the edition before; the tests skip without it")

// edition is the folder of the programs of an edition.
type edition string

// The editions.
var older, newer edition

// env is the Kubernetes API for operators.
var env *testenv.Env

// commands are the programs of an edition.
var commands = []string{"./cmd/registryd", "./cmd/agentd", "./cmd/operator", "./cmd/scriptctl"}

func TestMain(m *testing.M) {
	flag.Parse()
	if *before == "" {
		fmt.Println("skipped: `make soak-editions` builds the edition before, and runs these tests")
		os.Exit(0)
	}
	dir, err := os.MkdirTemp("", "editions")
	if err == nil {
		err = build(context.Background(), dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "editions:", err)
		os.Exit(1)
	}
	code := testenv.Run(m, func(e *testenv.Env) { env = e })
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// build builds both editions in the folder. The compiled packages stay in Go's cache.
func build(ctx context.Context, dir string) error {
	root, err := toolcache.Root()
	if err != nil {
		return err
	}
	tree := filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return err
	}
	archive := filepath.Join(dir, "tree.tar")
	if err := command(ctx, root, "git", "archive", "--output="+archive, *before); err != nil {
		return fmt.Errorf("fetch the commit first: %w", err)
	}
	if err := command(ctx, tree, "tar", "-xf", archive); err != nil {
		return err
	}
	older, newer = edition(filepath.Join(dir, "older")), edition(filepath.Join(dir, "newer"))
	for from, to := range map[string]edition{tree: older, root: newer} {
		args := append([]string{"build", "-trimpath", "-o", string(to) + string(filepath.Separator)}, commands...)
		if err := command(ctx, from, "go", args...); err != nil {
			return err
		}
	}
	return nil
}

func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "PWD="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// name is for people.
func (e edition) name() string { return filepath.Base(string(e)) }

// program returns the path of a program of the edition.
func (e edition) program(name string) string { return filepath.Join(string(e), name) }
