package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/scriptorium-dev/scriptorium/e2e/sight"
)

// watch notes each content of the file until ctx is done. The kernel says when the
// folder changes: that is when the kubelet swaps the link to a ConfigMap's contents.
func watch(ctx context.Context, file string, seen *sight.Log) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", file, err)
	}
	defer func() { _ = watcher.Close() }()
	if err := watcher.Add(filepath.Dir(file)); err != nil {
		return fmt.Errorf("watch the folder of %s: %w", file, err)
	}
	for {
		content, err := os.ReadFile(file)
		switch {
		case err == nil:
			seen.See(sight.File, sight.State{Content: strings.TrimSpace(string(content))}, time.Now())
		case errors.Is(err, fs.ErrNotExist):
			seen.See(sight.File, sight.State{Failure: "NOTFOUND"}, time.Now())
		default:
			return err
		}
		select {
		case <-watcher.Events:
		case err := <-watcher.Errors:
			return fmt.Errorf("watch %s: %w", file, err)
		case <-ctx.Done():
			return nil
		}
	}
}
