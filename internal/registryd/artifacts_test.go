package registryd_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestFlagsOfArtifacts: what cannot be used is refused at the start, with the flag to correct.
func TestFlagsOfArtifacts(t *testing.T) {
	hosts := []string{"ghcr.io"}
	for _, tt := range []struct {
		given registryd.Artifacts
		want  string
	}{
		{registryd.Artifacts{Registries: []string{"ghcr.io", "https://ghcr.io"}}, `--artifact-registries: "https://ghcr.io" is not a host`},
		{registryd.Artifacts{Credentials: "/none"}, "--artifact-registry-credentials: needs --artifact-registries"},
		{registryd.Artifacts{PlainHTTP: true}, "--artifact-plain-http: needs --artifact-registries"},
		{registryd.Artifacts{Registries: hosts, Credentials: "/none"}, "--artifact-registry-credentials: "},
		{registryd.Artifacts{Registries: hosts, Credentials: file(t, "config.json", "auths:")}, "--artifact-registry-credentials: is not in the format"},
		{registryd.Artifacts{Registries: hosts, Credentials: open(t)}, "has mode 0644"},
	} {
		cfg := config(t, "nats://127.0.0.1:1")
		cfg.Artifacts = tt.given
		d, err := registryd.Start(t.Context(), cfg)
		if err == nil {
			stop(t, d)
		}
		if script.KindOf(err) != script.Invalid || !strings.HasPrefix(err.Error(), "--artifact-") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %s", tt.given, err, tt.want)
		}
	}
}
