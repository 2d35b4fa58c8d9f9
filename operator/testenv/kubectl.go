package testenv

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Kubeconfig returns the path of the file that kubectl reads, for a user with all
// permissions.
func (e *Env) Kubeconfig() string { return filepath.Join(e.dir, "kubeconfig") }

// Kubectl runs kubectl as a user with all permissions, and returns what it wrote.
// The error has the exit code and what it wrote to standard error.
func (e *Env) Kubectl(ctx context.Context, stdin string, args ...string) (stdout, stderr string, err error) {
	cmd := exec.CommandContext(ctx, e.kubectl, append([]string{
		"--kubeconfig=" + e.Kubeconfig(), "--cache-dir=" + filepath.Join(e.dir, "kubectl"),
	}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECTL_KUBERC=false")
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &said
	if err := cmd.Run(); err != nil {
		return out.String(), said.String(), fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, said.String())
	}
	return out.String(), said.String(), nil
}
