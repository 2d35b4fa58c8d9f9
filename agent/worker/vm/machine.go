package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// What the first process says: that it is there, and at the end, before the exit code.
const (
	up    = "vm: the machine is up"
	ended = "vm: the tests ended with exit code "
	// none is what the tests of a package say that have run nothing, and have passed.
	none = "testing: warning: no tests to run"
)

// comesUp is how long a kernel may take under KVM, or else it does not come up under that:
// some machines offer a /dev/kvm that runs none.
const comesUp = 8 * time.Second

// errNotUp says that the first process was not reached.
var errNotUp = errors.New("the kernel does not come up")

// start starts the machine, shows what it says, and returns nil if its tests passed.
func (o options) start(ctx context.Context, initrd string) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if o.accel != "" {
		return o.startWith(ctx, o.accel, initrd, o.timeout)
	}
	if usable("/dev/kvm") {
		err := o.startWith(ctx, "kvm", initrd, comesUp)
		if !errors.Is(err, errNotUp) {
			return err
		}
		fmt.Fprintf(os.Stderr, "vm: with kvm: %v; trying tcg\n", err)
	}
	return o.startWith(ctx, "tcg", initrd, o.timeout)
}

// usable reports whether this process may use a device.
func usable(device string) bool {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}

// startWith starts the machine with one accelerator. It returns errNotUp if the first
// process says nothing for that long.
func (o options) startWith(ctx context.Context, accel, initrd string, patience time.Duration) error {
	// It ends rather than starts anew, also when the kernel panics.
	cmdline := "console=ttyS0 panic=-1 cgroup_no_v1=all"
	if !o.verbose {
		cmdline += " quiet loglevel=3"
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(patience, func() { cancel(errNotUp) })
	defer late.Stop()
	cmd := exec.CommandContext(ctx, qemu,
		"-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot",
		"-accel", accel, "-smp", "2", "-m", o.memory,
		"-kernel", o.kernel, "-initrd", initrd, "-append", cmdline)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	m := machine{isUp: func() { late.Stop() }}
	m.show(os.Stdout, out)
	err = cmd.Wait()
	switch {
	case m.ended && m.code == 0 && m.none:
		return errors.New("a package has no test of those that were asked for: see -run, and the tags of its files")
	case m.ended && m.code == 0:
		return nil
	case m.ended:
		return exitCode(m.code)
	case errors.Is(context.Cause(ctx), errNotUp):
		return fmt.Errorf("%w within %v: try --verbose; of kernels, %s", errNotUp, patience, kernelNeeds)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("the tests took longer than %v (--timeout)", o.timeout)
	case ctx.Err() != nil:
		return ctx.Err()
	case !m.up:
		return fmt.Errorf("%w (%s: %w): try --verbose; of kernels, %s", errNotUp, qemu, cmp.Or(err, errEnded), kernelNeeds)
	}
	return errors.New("the machine ended before its tests did: what it said is above; try --verbose")
}

// errEnded says how a machine ended that ended well.
var errEnded = errors.New("it ended")

// machine is what is known of one by what it said.
type machine struct {
	isUp  func() // called once
	up    bool
	ended bool
	code  int  // of the tests, if it ended
	none  bool // tests of a package: nothing was tried
}

// show copies what the machine says, to its end.
func (m *machine) show(w io.Writer, from io.Reader) {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		line = strings.TrimRight(line, "\r\n")
		if line != "" || err == nil {
			fmt.Fprintln(w, line)
		}
		m.see(line)
		if err != nil {
			return
		}
	}
}

func (m *machine) see(line string) {
	if strings.HasSuffix(line, up) && !m.up { // what the firmware said may be before it
		m.up = true
		m.isUp()
	}
	m.none = m.none || line == none
	if text, ok := strings.CutPrefix(line, ended); ok {
		if n, err := strconv.Atoi(text); err == nil {
			m.ended, m.code = true, n
		}
	}
}
