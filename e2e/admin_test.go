//go:build e2e

package e2e_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/e2e/kube"
)

// admin runs scriptctl as the administrator, from outside of the cluster, as docs/kubernetes.md has it.
type admin struct {
	w       *world
	program string
	dir     string // of the certificate
	address string
	forward *exec.Cmd
	stop    context.CancelFunc
}

// files are those of the Secret scriptorium-admin-tls.
var files = []string{"ca.crt", "tls.crt", "tls.key"}

// newAdmin returns one whose files are in the folder.
func newAdmin(t *testing.T, w *world, dir string) *admin {
	t.Helper()
	a := &admin{w: w, program: filepath.Join(dir, "scriptctl"), dir: dir}
	if _, err := w.cluster.Shell(t.Context(), "go build -o "+a.program+" ./cmd/scriptctl", "CGO_ENABLED=0"); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text := w.kubectl(t, "", "-n", kube.SystemNamespace, "get", "secret", "scriptorium-admin-tls", "-o", "jsonpath={.data."+strings.ReplaceAll(file, ".", `\.`)+"}")
		content, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// connect forwards a port to a registry, unless one is.
func (a *admin) connect(t *testing.T) {
	t.Helper()
	if a.forward != nil && a.forward.ProcessState == nil {
		return
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, "kubectl", "-n", kube.SystemNamespace, "port-forward", "service/scriptorium-registry", ":7070")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a.forward, a.stop = cmd, stop
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if rest, found := strings.CutPrefix(lines.Text(), "Forwarding from 127.0.0.1:"); found {
			port, _, _ := strings.Cut(rest, " ")
			a.address = "localhost:" + port
			return
		}
	}
	a.close()
	t.Fatalf("kubectl port-forward: %s", said.String())
}

// close ends the forwarding.
func (a *admin) close() {
	if a.forward != nil {
		a.stop()
		_ = a.forward.Wait() // it was killed
		a.forward = nil
	}
}

// try runs scriptctl. A port is forwarded to one pod: if that is gone, to another one.
func (a *admin) try(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	for range 2 {
		a.connect(t)
		flags := []string{"--registry", a.address}
		for i, flag := range []string{"--ca", "--cert", "--key"} {
			flags = append(flags, flag, filepath.Join(a.dir, files[i]))
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience/4)
		defer cancel()
		cmd := exec.CommandContext(ctx, a.program, append(flags, args...)...)
		said, err := cmd.CombinedOutput()
		out = fmt.Sprintf("$ scriptctl %s\n%s", strings.Join(args, " "), said)
		if err == nil || !strings.Contains(out, "cannot reach the registry") {
			return out, err
		}
		a.close()
	}
	return out, errors.New("no registry is reached by kubectl port-forward")
}

// run runs scriptctl, which must succeed, and returns what it printed.
func (a *admin) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := a.try(t, args...)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return out
}
