package main

import (
	"context"
	"os"
	"runtime/pprof"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
)

// The servers of a stack: the driver starts itself again as each of them. They end at
// SIGTERM, or with the driver.

func newEtcdCommand() *cobra.Command {
	var cfg embedded.EtcdConfig
	cmd := &cobra.Command{
		Use: "etcd", Short: "Run etcd", Args: cobra.NoArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			etcd, err := embedded.StartEtcd(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			defer etcd.Stop()
			<-cmd.Context().Done()
			return nil
		},
	}
	cmd.Flags().StringVar(&cfg.Dir, "dir", "", "folder of the data")
	cmd.Flags().IntVar(&cfg.Port, "port", 0, "port on loopback")
	return cmd
}

func newNATSCommand() *cobra.Command {
	var cfg embedded.NATSConfig
	cmd := &cobra.Command{
		Use: "nats", Short: "Run NATS", Args: cobra.NoArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			nats, err := embedded.StartNATS(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			defer nats.Stop()
			<-cmd.Context().Done()
			return nil
		},
	}
	cmd.Flags().IntVar(&cfg.Port, "port", 0, "port on loopback")
	return cmd
}

// newRegistrydCommand is registryd, with profiles if they are wanted.
func newRegistrydCommand() *cobra.Command {
	cmd := registryd.Command()
	cmd.Hidden = true
	withProfile(cmd)
	return cmd
}

// withProfile adds a flag for a profile of the processor time, and one of what is
// allocated beside it.
func withProfile(cmd *cobra.Command) {
	var path string
	cmd.Flags().StringVar(&path, "cpuprofile", "", "write a CPU profile to this file, and one of allocations to this file with .mem behind it")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if path == "" {
			return run(cmd, args)
		}
		file, err := os.Create(path)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
		defer context.AfterFunc(cmd.Context(), func() { writeHeap(path + ".mem") })()
		return run(cmd, args)
	}
}

// writeHeap writes what is in use and was allocated when the process is asked to end.
func writeHeap(path string) {
	file, err := os.Create(path)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	_ = pprof.Lookup("allocs").WriteTo(file, 0) // there is no reader if it fails
}
