// Command vm runs tests under a kernel of their own, in QEMU: what a kernel keeps can be
// tried where the machine's own one cannot be had, as in a container.
//
//	go run ./agent/worker/vm --kernel vmlinuz ./agent/worker/confine
//
// The tests run as root, in a control group that is delegated to them as systemd would to
// an agent, and with the build tag cgroupv2. This program is also the first process there.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	if os.Getpid() == 1 {
		boot()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if code, ok := errors.AsType[exitCode](err); ok {
		os.Exit(int(code))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
		os.Exit(1)
	}
}

// exitCode is that of tests that failed, which have said why.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("the tests ended with exit code %d", int(c)) }

// options are the flags of the command.
type options struct {
	kernel  string
	accel   string
	memory  string
	timeout time.Duration
	verbose bool
	once    bool
}

// kernelNeeds says which kernels do.
const kernelNeeds = "one for amd64 with initrd, devtmpfs, the serial console and cgroup v2 (memory, cpu, pids) built in does, such as that of Debian's linux-image-cloud-amd64: .ci/run fetches it"

func newCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "vm --kernel FILE PACKAGE… [-- TEST FLAGS]",
		Short: "Run tests under a kernel of their own, in QEMU",
		Long: `Run the tests of packages under a kernel of their own, in QEMU, with the build tag cgroupv2.

It is called in the module's folder, with folders for packages. Their tests see nothing of
what is on disk. It ends with the exit code of the first tests that fail.`,
		Example:       "  go run ./agent/worker/vm --kernel vmlinuz ./agent/worker/confine -- -run TestTheKernel -v",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			packages, flags := args, []string(nil)
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				packages, flags = args[:n], args[n:]
			}
			if len(packages) == 0 {
				return errors.New("name the folders of the packages to test, such as ./agent/worker/confine")
			}
			return o.run(cmd.Context(), packages, flags)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kernel, "kernel", os.Getenv("KERNEL"), "the kernel's file (vmlinuz); the variable KERNEL if not given")
	f.StringVar(&o.accel, "accel", "", "QEMU's accelerator: kvm, or tcg, which is slower and works everywhere; the first of them that works if not given")
	f.StringVar(&o.memory, "memory", "2G", "memory of the machine")
	f.DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long all of it may take once it is built")
	f.BoolVar(&o.once, "once", false, "do nothing if the same tests passed under the same kernel before")
	f.BoolVar(&o.verbose, "verbose", false, "show what the kernel says")
	return cmd
}

const qemu = "qemu-system-x86_64"

// run builds the tests and runs them.
func (o options) run(ctx context.Context, packages, flags []string) error {
	if o.kernel == "" {
		return fmt.Errorf("which kernel? Give its file by --kernel or KERNEL; %s", kernelNeeds)
	}
	if _, err := os.Stat(o.kernel); err != nil {
		return fmt.Errorf("the kernel cannot be read: %w; %s", err, kernelNeeds)
	}
	if _, err := exec.LookPath(qemu); err != nil {
		return fmt.Errorf("%w: install it (Debian: qemu-system-x86)", err)
	}
	dir, err := os.MkdirTemp("", "vm")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a folder of temporary files
	initrd, err := o.build(ctx, dir, packages, flags)
	if err != nil {
		return err
	}
	if !o.once {
		return o.start(ctx, initrd)
	}
	mark, err := passMark(o.kernel, initrd)
	if err != nil {
		return err
	}
	if _, err := os.Stat(mark); err == nil {
		fmt.Fprintln(os.Stderr, "vm: not run: the same tests passed under this kernel before; without --once they run again")
		return nil
	}
	if err := o.start(ctx, initrd); err != nil {
		return err
	}
	return os.WriteFile(mark, nil, 0o600)
}

// passMark returns the path of the file that exists once the machine's tests passed. Its
// name has the digest of all that the machine starts from.
func passMark(inputs ...string) (string, error) {
	hash := sha256.New()
	for _, path := range inputs {
		file, err := os.Open(path)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(hash, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return "", err
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "scriptorium", "vm")
	return filepath.Join(dir, fmt.Sprintf("passed-%x", hash.Sum(nil)[:16])), os.MkdirAll(dir, 0o755)
}

// build builds what the machine starts from, in dir.
func (o options) build(ctx context.Context, dir string, packages, flags []string) (initrd string, err error) {
	first := filepath.Join(dir, "init")
	if err := goTool(ctx, "build", "-o", first, module+"/agent/worker/vm"); err != nil {
		return "", err
	}
	files := map[string]string{"init": first}
	var all []test
	for _, p := range packages {
		if !filepath.IsLocal(p) {
			return "", fmt.Errorf("%s: name a package by its folder below this one", p)
		}
		t := test{Dir: filepath.ToSlash(filepath.Clean(p)), Args: testFlags(flags, o.timeout)}
		binary := filepath.Join(dir, strings.ReplaceAll(t.Dir, "/", "_")+".test")
		if err := goTool(ctx, "test", "-c", "-tags", "cgroupv2", "-o", binary, "./"+t.Dir); err != nil {
			return "", err
		}
		if _, err := os.Stat(binary); err != nil {
			return "", fmt.Errorf("%s has no tests: %w", p, err)
		}
		files[t.binary()] = binary
		all = append(all, t)
	}
	initrd = filepath.Join(dir, "initrd")
	return initrd, writeInitrd(initrd, all, files)
}

const module = "github.com/scriptorium-dev/scriptorium"

// goTool runs the go command for what the machine is.
func goTool(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64",
		"GOFLAGS=-trimpath -buildvcs=false") // the same sources make the same programs, wherever they are
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// testFlags are flags of `go test` as its tests know them. They end a little before all
// has to, so that they can say what they were at.
func testFlags(flags []string, timeout time.Duration) []string {
	all := []string{"-test.timeout=" + (timeout * 9 / 10).String()}
	for _, f := range flags {
		if name, ok := strings.CutPrefix(f, "-"); ok && !strings.HasPrefix(name, "test.") {
			f = "-test." + name
		}
		all = append(all, f)
	}
	return all
}
