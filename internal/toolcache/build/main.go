// Command build builds programs for development and tests into the user's cache, and
// prints their paths. It is for the Makefile; tests call package toolcache.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/scriptorium-dev/scriptorium/internal/toolcache"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	var into string
	cmd := &cobra.Command{
		Use:   "build NAME…|all",
		Short: "Build programs for development and tests, once",
		Long: `Build programs for development and tests into the user's cache, and print their paths.
A program that the cache already has is not built again.

Programs: ` + strings.Join(toolcache.Names(), ", "),
		Example:       "  go run ./internal/toolcache/build kube-apiserver etcd",
		Args:          cobra.MinimumNArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, names []string) error {
			if len(names) == 1 && names[0] == "all" {
				names = toolcache.Names()
			}
			return build(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), names, into)
		},
	}
	cmd.Flags().StringVar(&into, "link", "", "folder that gets a symbolic link to each program")
	return cmd
}

// build builds as many programs at once as there are processors: the end of each build,
// its link, uses one.
func build(ctx context.Context, out, progress io.Writer, names []string, into string) error {
	paths := make([]string, len(names))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.NumCPU())
	for i, name := range names {
		g.Go(func() (err error) {
			paths[i], err = toolcache.Get(ctx, progress, name)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, path := range paths {
		fmt.Fprintln(out, path)
		if into == "" {
			continue
		}
		if err := link(path, filepath.Join(into, names[i])); err != nil {
			return err
		}
	}
	return nil
}

// link makes a symbolic link, in place of an earlier one.
func link(target, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(target, path)
}
