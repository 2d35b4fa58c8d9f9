//go:build !linux

package main

import (
	"fmt"
	"os"
)

// boot is for the machine, whose system is Linux.
func boot() {
	fmt.Fprintln(os.Stderr, "vm: this is no machine to boot")
	os.Exit(1)
}
