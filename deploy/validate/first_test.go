package validate_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/internal/operatord"
	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
)

// asScriptctl has the test's own program be scriptctl.
const asScriptctl = "VALIDATE_IS_SCRIPTCTL"

// runScriptctl is scriptctl, where that is what the program was started for.
func runScriptctl() {
	if os.Getenv(asScriptctl) != "" {
		os.Exit(scriptctl.Run(context.Background(), scriptctl.Standard(), os.Args[1:]))
	}
}

// TestTheFirstScript types the commands that the chart and the page show after an installation: each command
// succeeds, and the call is answered.
func TestTheFirstScript(t *testing.T) {
	f := startFleet(t)
	for name, text := range map[string]string{"NOTES.txt": notes(t), "docs/kubernetes.md": firstScript(t)} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { // while there is an operator to let go of them
				args := []string{"delete", "--ignore-not-found", "--timeout=1m", "script/hello", "luascript/hello", "scripttenant/acme"}
				if _, _, err := env.Kubectl(context.Background(), "", args...); err != nil {
					t.Error(err)
				}
			})
			commands := typed(text)
			for _, want := range []string{"kubectl apply", "kubectl wait", "scriptctl call"} {
				if !strings.Contains(commands, want) {
					t.Fatalf("there is no %q in what people type: is it written in another way?\n%s", want, text)
				}
			}
			if said := f.shell(t, commands); !strings.Contains(said, "\n\"hello ann\"\n") {
				t.Errorf("nobody says hello:\n%s", said)
			}
		})
	}
}

// notes returns what helm prints after the chart's installation.
func notes(t *testing.T) string {
	t.Helper()
	out, err := runHelm(t, "install", "scriptorium", chart, "--namespace="+namespace, "--dry-run=client")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(out, "\nNOTES:\n")
	if !found {
		t.Fatalf("helm prints no notes:\n%s", out)
	}
	return text
}

// firstScript returns the commands of the page's sections about a first script and about
// scriptctl, without those from outside, which go through a kubelet.
func firstScript(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for _, title := range []string{"A first script", "scriptctl"} {
		section, err := page.ReadSection("../../docs/kubernetes.md", title)
		if err != nil {
			t.Fatal(err)
		}
		section, _, _ = strings.Cut(section, "\nFrom outside, ")
		text.WriteString(strings.Join(page.Indented(section), ""))
	}
	return text.String()
}

// typed returns the commands of a text: its lines that begin with kubectl, with their
// here-documents, but for those that wait for pods.
func typed(text string) string {
	var commands strings.Builder
	end := "" // of a here-document
	for line := range strings.Lines(text) {
		command := strings.TrimSpace(line)
		switch {
		case end != "":
			commands.WriteString(line)
			if command == end {
				end = ""
			}
		case strings.HasPrefix(command, "kubectl ") && !strings.Contains(command, " rollout status "):
			commands.WriteString(line)
			_, end, _ = strings.Cut(command, "<<")
		}
	}
	return commands.String()
}

// fleet is a registry with an agent, and an operator between it and the Kubernetes API.
type fleet struct{ *local.Stack }

// startFleet starts one, which ends with the test.
func startFleet(t *testing.T) fleet {
	t.Helper()
	dir, err := os.MkdirTemp("", "validate") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	stack, err := local.Start(t.Context(), dir, 1, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stack.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	operator, err := operatord.New(operatord.Config{Kube: rest.CopyConfig(env.Config), Registry: stack.RegistryTarget(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- operator.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return fleet{stack}
}

// shell runs commands in a shell. Its kubectl is the real one, but for exec: there are no
// pods, so that runs scriptctl here, on this registry and its agent.
func (f fleet) shell(t *testing.T, commands string) (said string) {
	t.Helper()
	kubectl := filepath.Join(filepath.Dir(needs.Program(t, "kube-apiserver")), "kubectl")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for name, text := range map[string]string{
		"kubectl":   `case " $* " in *" exec "*) while [ "$1" != -- ]; do shift; done; shift; exec "$@";; esac; exec ` + kubectl + ` "$@"`,
		"scriptctl": asScriptctl + "=1 exec " + program + ` "$@"`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil { //nolint:gosec // to be run
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-e", "-c", commands)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+env.Kubeconfig(), "KUBECTL_KUBERC=false",
		"SCRIPTORIUM_REGISTRY="+f.RegistryTarget(), "SCRIPTORIUM_AGENT=unix:"+filepath.Join(f.AgentDir(1), "grpc.sock"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v, from\n%s\n%s", err, commands, out)
	}
	return string(out)
}
