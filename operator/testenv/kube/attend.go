package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// awaitEnd returns at the first signal, or when whoever started the process is gone: a
// test that panics stops nothing.
func awaitEnd() {
	parent := os.Getppid()
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTERM, syscall.SIGINT)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for os.Getppid() == parent {
		select {
		case <-stopped:
			return
		case <-ticker.C:
		}
	}
}

// endAtOnce ends the process when it is to end. The API server by itself would wait up
// to a minute for its clients, and tests stop it to see what those do without it.
func endAtOnce() {
	awaitEnd()
	os.Exit(0)
}

// attend runs a program with the arguments of this one until it or this process is to
// end, and returns its exit code.
func attend(path string) int {
	cmd := exec.Command(path, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "kube:", err)
		return 1
	}
	go func() {
		awaitEnd()
		_ = cmd.Process.Kill()
	}()
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode()
	}
	return 0
}
