package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cavaliergopher/cpio"
)

// TestMachine: what of a machine's words is believed.
func TestMachine(t *testing.T) {
	for name, tt := range map[string]struct {
		said      string
		up, ended bool
		code      int
		none      bool
	}{
		"nothing":                {},
		"not up":                 {said: "Booting from ROM...\r\nKernel panic\r\n"},
		"up":                     {said: "\x1b[2Jvm: the machine is up\r\n", up: true},
		"passed":                 {said: "vm: the machine is up\r\nPASS\r\n\r\nvm: the tests ended with exit code 0\r\n", up: true, ended: true},
		"nothing was run":        {said: "vm: the machine is up\r\ntesting: warning: no tests to run\r\nPASS\r\n\r\nvm: the tests ended with exit code 0\r\n", up: true, ended: true, none: true},
		"a test says so":         {said: "vm: the machine is up\r\n    x: testing: warning: no tests to run\r\n\r\nvm: the tests ended with exit code 0\r\n", up: true, ended: true},
		"failed":                 {said: "vm: the machine is up\r\n\r\nvm: the tests ended with exit code 2\r\nreboot: Power down", up: true, ended: true, code: 2},
		"cut off":                {said: "vm: the machine is up\r\nvm: the tests ended with exit code", up: true},
		"in the midst of a line": {said: "vm: the machine is up\r\nlog: vm: the tests ended with exit code 0\r\n", up: true},
	} {
		t.Run(name, func(t *testing.T) {
			ups := 0
			m := machine{isUp: func() { ups++ }}
			var shown strings.Builder
			m.show(&shown, strings.NewReader(tt.said))
			if m.up != tt.up || m.ended != tt.ended || m.code != tt.code || m.none != tt.none || (ups == 1) != tt.up {
				t.Errorf("got %+v, up %d times", m, ups)
			}
			if want := strings.TrimRight(strings.ReplaceAll(tt.said, "\r", ""), "\n"); strings.TrimRight(shown.String(), "\n") != want {
				t.Errorf("it shows %q, want %q", shown.String(), want)
			}
		})
	}
}

// TestInitrd: each file is in a folder that is made before it.
func TestInitrd(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("x.test", []byte("content of x.test"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []test{{Dir: "agent/x"}}
	if err := writeInitrd("initrd", tests, map[string]string{tests[0].binary(): "x.test"}); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("initrd")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var names []string
	r := cpio.NewReader(f)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if dir := filepath.Dir(h.Name); dir != "." && !slices.Contains(names, dir) {
			t.Errorf("%s is before its folder", h.Name)
		}
		names = append(names, h.Name)
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == "tests/agent/x/x.test" && (h.Mode.Perm() != 0o755 || string(content) != "content of x.test") {
			t.Errorf("%s: %v, %q", h.Name, h.Mode, content)
		}
	}
	want := []string{"tests.json", "tests", "tests/agent", "tests/agent/x", "tests/agent/x/x.test"}
	if !slices.Equal(names, want) {
		t.Errorf("it has %q, want %q", names, want)
	}
	if err := writeInitrd("initrd", tests, map[string]string{"x": "none"}); err == nil {
		t.Error("a file that is not there is in it")
	}
}

// TestFlags: tests get the flags of go test as they know them.
func TestFlags(t *testing.T) {
	got := testFlags([]string{"-run", "TestX", "-v", "-test.count=1"}, 10*time.Minute)
	if want := []string{"-test.timeout=9m0s", "-test.run", "TestX", "-test.v", "-test.count=1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWhatIsMissing is said, with what to do.
func TestWhatIsMissing(t *testing.T) {
	t.Setenv("KERNEL", "")
	t.Setenv("PATH", t.TempDir())
	kernel := filepath.Join(t.TempDir(), "vmlinuz")
	if err := os.WriteFile(kernel, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"name the folders":                     {"--kernel", kernel},
		"which kernel?":                        {"./x"},
		"the kernel cannot be read":            {"--kernel", kernel + "x", "./x"},
		"install it (Debian: qemu-system-x86)": {"--kernel", kernel, "./x"},
	} {
		cmd := newCommand()
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}

// TestPassMark: the mark changes with the kernel and with the tests, and with nothing else.
func TestPassMark(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	mark := func(kernel, initrd string) string {
		t.Helper()
		k, i := filepath.Join(dir, "kernel"), filepath.Join(dir, "initrd")
		if err := errors.Join(os.WriteFile(k, []byte(kernel), 0o600), os.WriteFile(i, []byte(initrd), 0o600)); err != nil {
			t.Fatal(err)
		}
		path, err := passMark(k, i)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	first := mark("kernel", "tests")
	if again := mark("kernel", "tests"); again != first {
		t.Errorf("the mark of the same content is %s, then %s", first, again)
	}
	if mark("other kernel", "tests") == first || mark("kernel", "other tests") == first {
		t.Error("other content has the same mark")
	}
	if err := os.WriteFile(first, nil, 0o600); err != nil {
		t.Errorf("the mark cannot be written: %v", err)
	}
}
