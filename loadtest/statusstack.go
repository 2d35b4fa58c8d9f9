package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
)

// newServersCommand is a process with etcd and NATS. It ends when its standard input
// does.
func newServersCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "servers", Short: "Run etcd and NATS until standard input ends", Args: cobra.NoArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			etcd, err := embedded.StartEtcd(cmd.Context(), embedded.EtcdConfig{Dir: dir})
			if err != nil {
				return err
			}
			defer etcd.Stop()
			nats, err := embedded.StartNATS(cmd.Context(), embedded.NATSConfig{})
			if err != nil {
				return err
			}
			defer nats.Stop()
			fmt.Fprintln(cmd.OutOrStdout(), etcd.Endpoint(), nats.URL())
			_, err = io.Copy(io.Discard, cmd.InOrStdin())
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "folder of etcd")
	return cmd
}

// newProfiledCommand is registryd, with a profile of its processor time.
func newProfiledCommand() *cobra.Command {
	cmd := registryd.Command()
	var profile string
	cmd.Hidden = true
	cmd.Flags().StringVar(&profile, "cpuprofile", "", "write a CPU profile to this file")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
		return run(cmd, args)
	}
	return cmd
}

// statusStack is etcd and NATS in one process, and registryd in another.
type statusStack struct {
	dir      string
	nats     string
	registry *exec.Cmd
	stop     []func()
}

func startStatusStack(ctx context.Context, profile string) (s *statusStack, err error) {
	dir, err := os.MkdirTemp("", "status")
	if err != nil {
		return nil, err
	}
	s = &statusStack{dir: dir}
	s.stop = append(s.stop, func() { _ = os.RemoveAll(dir) })
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	etcd, err := s.startServers(ctx, self)
	if err != nil {
		return nil, err
	}
	binary, args := filepath.Join(dir, "registryd"), []string{}
	if profile != "" {
		binary, args = self, []string{"registryd", "--cpuprofile", profile}
	} else if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/registryd").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build registryd, from the root of the repository: %w: %s", err, out)
	}
	// It ends in its turn, not when ctx does.
	s.registry = exec.CommandContext(context.WithoutCancel(ctx), binary, append(args,
		"--listen", s.target(), "--admin-address", "127.0.0.1:0", "--etcd-endpoints", etcd, "--nats-url", s.nats,
		"--insecure-unsigned", "--insecure-plaintext", "--insecure-anonymous", "--log-level", "error")...)
	s.registry.Stderr = os.Stderr
	if err := s.registry.Start(); err != nil {
		return nil, err
	}
	s.stop = append(s.stop, func() {
		_ = s.registry.Process.Signal(os.Interrupt)
		_ = s.registry.Wait() // its log says what was wrong
	})
	return s, nil
}

func (s *statusStack) startServers(ctx context.Context, self string) (etcd string, err error) {
	servers := exec.CommandContext(context.WithoutCancel(ctx), self, "servers", "--dir", filepath.Join(s.dir, "etcd"))
	servers.Stderr = os.Stderr
	in, err := servers.StdinPipe()
	if err != nil {
		return "", err
	}
	out, err := servers.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := servers.Start(); err != nil {
		return "", err
	}
	s.stop = append(s.stop, func() {
		_ = in.Close()
		_ = servers.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("etcd and NATS did not start: %w", err)
	}
	etcd, s.nats, _ = strings.Cut(strings.TrimSpace(line), " ")
	return etcd, nil
}

// target is where the registry's API is.
func (s *statusStack) target() string { return "unix:" + filepath.Join(s.dir, "registry.sock") }

func (s *statusStack) close() {
	for i := len(s.stop) - 1; i >= 0; i-- {
		s.stop[i]()
	}
}

// clockTick is the unit of times in /proc on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// cpu is the processor time that registryd has taken so far.
func (s *statusStack) cpu() (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.registry.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), ") ") // the name may hold anything
	fields := strings.Fields(rest)
	const user, system = 11, 12
	if len(fields) <= system {
		return 0, fmt.Errorf("/proc/%d/stat is not understood: %q", s.registry.Process.Pid, data)
	}
	var total time.Duration
	for _, field := range fields[user : system+1] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		total += time.Duration(ticks) * clockTick
	}
	return total, nil
}

// memory is what registryd holds in memory, in bytes.
func (s *statusStack) memory() (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.registry.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm is not understood: %q", s.registry.Process.Pid, data)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}
