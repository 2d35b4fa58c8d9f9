package flagenv_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/internal/flagenv"
)

func TestBind(t *testing.T) {
	tests := []struct {
		name string
		env  string
		args []string
		want time.Duration
		err  string
	}{
		{name: "default", want: time.Second},
		{name: "variable", env: "2s", want: 2 * time.Second},
		{name: "flag wins", env: "2s", args: []string{"--drain-timeout=3s"}, want: 3 * time.Second},
		{name: "bad variable", env: "soon", err: "SCRIPTORIUM_DRAIN_TIMEOUT"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.env != "" {
				t.Setenv("SCRIPTORIUM_DRAIN_TIMEOUT", tt.env)
			}
			var got time.Duration
			cmd := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error { return nil }}
			cmd.Flags().DurationVar(&got, "drain-timeout", time.Second, "time to finish calls in")
			flagenv.Bind(cmd)
			cmd.SetArgs(tt.args)
			err := cmd.Execute()
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v does not name %s", err, tt.err)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("got %v, %v, want %v", got, err, tt.want)
			}
			if usage := cmd.UsageString(); !strings.Contains(usage, "SCRIPTORIUM_DRAIN_TIMEOUT") {
				t.Errorf("the help does not name the variable:\n%s", usage)
			}
		})
	}
}
