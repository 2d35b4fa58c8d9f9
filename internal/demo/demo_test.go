package demo_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/demo"
	"github.com/scriptorium-dev/scriptorium/internal/process"
	"github.com/scriptorium-dev/scriptorium/internal/scriptorium"
	"github.com/scriptorium-dev/scriptorium/internal/sdkbuild"
)

// TestMain is the scriptorium command when it is asked to be: the demo starts
// agents as processes of the program that it is part of.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "agentd" {
		process.Main(scriptorium.Command())
	}
	os.Exit(m.Run())
}

func TestDemo(t *testing.T) {
	modules := filepath.Dir(built(t))
	var out bytes.Buffer
	err := demo.Run(t.Context(), demo.Config{AgentCommand: []string{os.Args[0], "agentd"}, Modules: modules, Patience: time.Minute, Out: &out})
	t.Log("\n" + out.String())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "all 14 steps held") {
		t.Error("not all steps were shown")
	}
}

// built returns the folder of modules in Rust, or in Go if the machine has no compiler for Rust.
func built(t *testing.T) string {
	t.Helper()
	dir, err := sdkbuild.Build(t.Context(), "rust")
	if errors.Is(err, sdkbuild.ErrNoTool) {
		t.Log(err)
		dir, err = sdkbuild.Build(t.Context(), "go")
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestDemoFails: a demonstration that cannot fail shows nothing.
func TestDemoFails(t *testing.T) {
	var out bytes.Buffer
	err := demo.Run(t.Context(), demo.Config{AgentCommand: []string{os.Args[0], "agentd", "--log-level=nonsense"}, Out: &out})
	if err == nil {
		t.Errorf("a demonstration without agents held:\n%s", &out)
	}
}
