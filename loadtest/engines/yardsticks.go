package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/toolcache"
)

// yardstick is the benchmark of a library that only one package imports: BenchmarkYardstick/TASK/NAME.
type yardstick struct {
	binary, dir string
	contestants []*contestant
}

// buildYardsticks builds the test binaries.
func buildYardsticks(ctx context.Context, dir string) ([]*yardstick, error) {
	root, err := toolcache.Root()
	if err != nil {
		return nil, err
	}
	var all []*yardstick
	for _, name := range []string{"rego", "wasm"} {
		y := &yardstick{binary: filepath.Join(dir, name+".test"), dir: filepath.Join(root, "engine", name)}
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", y.binary, "./engine/"+name)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the yardstick of engine/%s: %w\n%s", name, err, out)
		}
		all = append(all, y)
	}
	return all, nil
}

// measure runs the benchmark once.
func (y *yardstick) measure(ctx context.Context, duration time.Duration) error {
	cmd := exec.CommandContext(ctx, y.binary, "-test.run", "^$", "-test.bench", "^BenchmarkYardstick$", "-test.benchtime", duration.String()) //nolint:gosec // built above
	cmd.Dir = y.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", y.binary, err, out)
	}
	for line := range bytes.Lines(out) {
		if err := y.read(strings.Fields(string(line))); err != nil {
			return err
		}
	}
	return nil
}

// read takes the line of one benchmark: its name, how often it ran, and pairs of a number and a unit.
func (y *yardstick) read(fields []string) error {
	if len(fields) == 0 || !strings.HasPrefix(fields[0], "BenchmarkYardstick/") {
		return nil
	}
	parts := strings.SplitN(strings.TrimPrefix(fields[0], "BenchmarkYardstick/"), "/", 2)
	if len(parts) < 2 {
		return fmt.Errorf("%s names no task", fields[0])
	}
	name := parts[1]
	if i := strings.LastIndexByte(name, '-'); i > 0 { // the number of processors
		if _, err := strconv.Atoi(name[i+1:]); err == nil {
			name = name[:i]
		}
	}
	var f figures
	into := map[string]*time.Duration{"cpu-ns/op": &f.cpu, "p50-ns": &f.p50, "p99-ns": &f.p99}
	for i := 2; i+1 < len(fields); i += 2 {
		if d := into[fields[i+1]]; d != nil {
			n, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return fmt.Errorf("%s: %w", fields[0], err)
			}
			*d = time.Duration(n)
		}
	}
	c := y.of(parts[0], strings.ReplaceAll(name, "_", " "))
	c.rounds = append(c.rounds, f)
	return nil
}

// of returns the contestant of the benchmark.
func (y *yardstick) of(task, name string) *contestant {
	for _, c := range y.contestants {
		if c.task == task && c.name == name {
			return c
		}
	}
	c := &contestant{task: task, name: name}
	y.contestants = append(y.contestants, c)
	return c
}
