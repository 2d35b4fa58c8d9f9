package registryd_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/registryd"
)

// TestReplicasWithTwoKeys: replicas that sign with different keys say so, until all have one.
func TestReplicasWithTwoKeys(t *testing.T) {
	cfg := config(t, startNATS(t, 0).URL())
	cfg.Security.InsecureUnsigned = false
	withKey := func(cfg registryd.Config) registryd.Config {
		cfg.Security.SigningKey = signingKey(t)
		cfg.Listen = []string{socket(dir(t))}
		return cfg
	}
	differs := func(d *registryd.Daemon) bool {
		degraded := d.Ready(t.Context()).Degraded
		return len(degraded) == 1 && strings.Contains(degraded[0], "--signing-key")
	}
	first, _ := start(t, withKey(cfg))
	second, err := registryd.Start(t.Context(), withKey(cfg))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "both replicas notice", func() bool { return differs(first) && differs(second) })
	stop(t, second)
	eventually(t, "the first is well again", func() bool { return len(first.Ready(t.Context()).Degraded) == 0 })
}
