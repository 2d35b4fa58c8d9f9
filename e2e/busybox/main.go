// Command busybox stands for the image of that name where nodes can pull nothing. It is
// what it is called by: `rm -rf`, `ls` of folders, or `sleep infinity`, as the manifests
// of the tests and of docs/kubernetes.md run it.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
)

func main() {
	name := filepath.Base(os.Args[0])
	if err := run(os.Stdout, name, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func run(out io.Writer, name string, args []string) error {
	switch {
	case name == "rm" && len(args) > 1 && args[0] == "-rf":
		for _, path := range args[1:] {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	case name == "ls" && len(args) > 0:
		for _, folder := range args {
			if err := list(out, folder); err != nil {
				return err
			}
		}
	case name == "sleep" && slices.Equal(args, []string{"infinity"}):
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
		<-ended
	default:
		return fmt.Errorf("%q is not among what this one can do", args)
	}
	return nil
}

// list writes what is in the folder, as ls does when it is given several.
func list(out io.Writer, folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s:\n", folder)
	for _, entry := range entries {
		fmt.Fprintln(out, entry.Name())
	}
	fmt.Fprintln(out)
	return nil
}
