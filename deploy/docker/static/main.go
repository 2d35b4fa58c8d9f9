// Command static checks that programs are static and of a platform: that they start in an
// image that holds nothing else. With -has it also checks that they embed the file.
//
//	static [-has FILE] linux/arm64 PROGRAM…
package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	file := flag.String("has", "", "a file that the programs embed")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: static [-has FILE] linux/ARCHITECTURE PROGRAM…")
		os.Exit(2)
	}
	var errs []error
	for _, path := range flag.Args()[1:] {
		errs = append(errs, check(flag.Arg(0), path))
		if *file != "" {
			errs = append(errs, has(path, *file))
		}
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// has returns an error if the program does not embed the file: Go's linker leaves its bytes as they are.
func has(program, file string) error {
	code, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if len(content) == 0 || !bytes.Contains(code, content) {
		return fmt.Errorf("%s: does not have %s, or another edition of it: build the program again", program, file)
	}
	return nil
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
