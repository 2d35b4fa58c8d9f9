//go:build e2e

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/deploy/helm"
	"github.com/scriptorium-dev/scriptorium/e2e/kube"
	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
	"github.com/scriptorium-dev/scriptorium/internal/toolcache"
)

// TestQuickstart does what README.md has people do, and then what docs/kubernetes.md has
// them do who want nothing of it any more.
func TestQuickstart(t *testing.T) {
	w := newWorld(t)
	t.Cleanup(func() { w.clean(t) })
	env := helmEnv(t)
	run := func(t *testing.T, line string) string {
		t.Helper()
		out, err := w.cluster.Shell(t.Context(), line, env...)
		t.Logf("$ %s\n%s", line, out)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if t.Run("the commands of the README", func(t *testing.T) { w.quickstart(t, env, run) }) {
		t.Run("uninstall leaves nothing", func(t *testing.T) {
			agents := w.componentPods(t, "agent")
			w.uninstallChart(t, run)
			w.nothingLeft(t)
			w.removeFolders(t, agents)
		})
	}
}

// uninstallChart does what docs/kubernetes.md has.
func (w *world) uninstallChart(t *testing.T, run func(*testing.T, string) string) {
	t.Helper()
	section, err := w.cluster.Documented("Uninstall")
	if err != nil {
		t.Fatal(err)
	}
	commands, err := page.Find(page.Indented(section), "helm uninstall")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(commands) {
		run(t, strings.TrimSpace(line))
	}
}

func (w *world) quickstart(t *testing.T, env []string, run func(*testing.T, string) string) {
	t.Helper()
	w.claim(t)
	section, err := page.ReadSection(w.cluster.Path("README.md"), "On Kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	commands := page.Transcript(section)
	if len(commands) != 5 || !strings.HasPrefix(commands[0].Line, "helm install scriptorium ") {
		t.Fatalf("README.md has the commands %q: is it written in another way?", commands)
	}
	if classes := w.kubectl(t, "", "get", "storageclasses", "-o", "name"); strings.TrimSpace(classes) == "" {
		commands[0].Line += " --set etcd.persistence.enabled=false" // nobody here provides volumes
	}
	if w.images.Load == "" {
		commands[0].Line += " " + strings.Join(w.images.Values(), " ")
	} else {
		w.loadForChart(t, env)
	}
	for _, command := range commands {
		if command.Prints == "" {
			run(t, command.Line)
			continue
		}
		agents := w.kubectl(t, "", "-n", kube.SystemNamespace, "get", "daemonset", "scriptorium-agent", "-o", "jsonpath={.status.desiredNumberScheduled}")
		// An agent may connect a moment after the script has converged on the others.
		w.kubectl(t, "", "wait", "--for=jsonpath={.status.agents.summary}="+agents+"/"+agents, "--timeout=60s", "luascript/greet")
		out := run(t, command.Line)
		if want, got := likeness(strings.ReplaceAll(command.Prints, "2/2", agents+"/"+agents)), likeness(out); want != got {
			t.Errorf("%s\nprinted, but for its columns and ages\n%sand the README has\n%s", command.Line, got, want)
		}
	}
}

// loadForChart brings the cluster the images that the chart names, under these very names.
func (w *world) loadForChart(t *testing.T, env []string) {
	t.Helper()
	rendered, err := w.cluster.Shell(t.Context(), "helm template scriptorium deploy/helm/scriptorium", env...)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cluster.LoadNamed(t.Context(), w.images, rendered); err != nil {
		t.Fatal(err)
	}
	if err := w.cluster.LoadImages(t.Context(), w.images, kube.BusyboxImage); err != nil {
		t.Fatal(err)
	}
}

// helmEnv returns the variables with which a shell finds helm: the installed one, or else
// the one of the tools' module.
func helmEnv(t *testing.T) []string {
	t.Helper()
	env := helm.Env(t.TempDir())
	if _, err := exec.LookPath("helm"); err == nil {
		return env
	}
	program, err := toolcache.Get(t.Context(), t.Output(), "helm")
	if err != nil {
		t.Fatal(err)
	}
	return append(env, "PATH="+filepath.Dir(program)+string(os.PathListSeparator)+os.Getenv("PATH"))
}

var age = regexp.MustCompile(`^(\d+[dhms])+$`)

// likeness is what two runs have in common of what a command prints: all but how wide
// columns are, and how old things.
func likeness(printed string) string {
	var lines strings.Builder
	for line := range strings.Lines(printed) {
		words := strings.Fields(line)
		for i := range words {
			if age.MatchString(words[i]) {
				words[i] = "AGE"
			}
		}
		fmt.Fprintln(&lines, strings.Join(words, " "))
	}
	return lines.String()
}
