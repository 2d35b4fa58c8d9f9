// Package helm is how tests come by the program that installs the chart beside it.
package helm

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// FromTools returns the path of the helm that tools/go.mod names, whose root is that of
// the module. The first time it is built, which takes minutes; go keeps it in its cache.
func FromTools(ctx context.Context, root string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "-C", filepath.Join(root, "tools"), "tool", "-n", "helm").Output()
	if err != nil {
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w\n%s", err, failed.Stderr)
		}
		return "", fmt.Errorf("build helm from tools/go.mod: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Env returns the variables that have helm keep its own things in the folder, and not in
// those of whoever runs the tests.
func Env(folder string) []string {
	return []string{"HELM_CACHE_HOME=" + folder, "HELM_CONFIG_HOME=" + folder, "HELM_DATA_HOME=" + folder}
}
