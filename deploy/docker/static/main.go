// Command static checks that programs are static and of a platform: that they start in an
// image that holds nothing else.
//
//	static linux/arm64 PROGRAM…
package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"strings"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: static linux/ARCHITECTURE PROGRAM…")
		os.Exit(2)
	}
	var errs []error
	for _, path := range os.Args[2:] {
		errs = append(errs, check(os.Args[1], path))
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check returns why the program would not start in an empty image on the platform.
func check(platform, path string) error {
	want, known := map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64}[platform]
	if !known {
		return fmt.Errorf("%s: this knows linux/amd64 and linux/arm64", platform)
	}
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close() //nolint:errcheck // only read
	if f.Machine != want {
		return fmt.Errorf("%s: built for %v, want %v", path, f.Machine, want)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s: wants a dynamic linker: build it with CGO_ENABLED=0", path)
		}
	}
	if libraries, err := f.ImportedLibraries(); err == nil && len(libraries) > 0 {
		return fmt.Errorf("%s: wants %s: build it with CGO_ENABLED=0", path, strings.Join(libraries, ", "))
	}
	return nil
}
