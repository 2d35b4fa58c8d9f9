package registryd

import (
	"log/slog"
	"os"

	"github.com/spf13/pflag"

	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/artifact"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Artifacts says where sources may be fetched from that a publish names by reference.
type Artifacts struct {
	// Registries are those that may be asked: see artifact.Config. None if empty.
	Registries []string
	// Credentials is a file in the format of docker's config.json; "" for none.
	Credentials string
	// PlainHTTP is for registries on loopback.
	PlainHTTP bool
}

// AddFlags adds the flags, for commands that start a registry.
func (a *Artifacts) AddFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&a.Registries, "artifact-registries", nil, "`hosts` of OCI registries that publishes may name sources in (oci://HOST/…@sha256:…), with ports: ghcr.io, registry.example:5000, *.example for all hosts below example; none when empty")
	flags.StringVar(&a.Credentials, "artifact-registry-credentials", "", "`file` of the credentials for --artifact-registries, in the format of docker's config.json; its credential helpers are not run")
	flags.BoolVar(&a.PlainHTTP, "artifact-plain-http", false, "speak HTTP without TLS to those of --artifact-registries that are on loopback")
}

// open returns nil if no registry may be asked.
func (a Artifacts) open(modes tlsfiles.Modes, log *slog.Logger) (registry.Artifacts, error) {
	if len(a.Registries) == 0 {
		if a.Credentials != "" {
			return nil, script.Errorf(script.Invalid, "--artifact-registry-credentials", "needs --artifact-registries, which says for which hosts")
		}
		if a.PlainHTTP {
			return nil, script.Errorf(script.Invalid, "--artifact-plain-http", "needs --artifact-registries, which says for which hosts")
		}
		return nil, nil
	}
	cfg := artifact.Config{Registries: a.Registries, PlainHTTP: a.PlainHTTP}
	if a.Credentials != "" {
		cfg.Credentials = func() ([]byte, error) { return os.ReadFile(a.Credentials) }
		if err := a.checkCredentials(modes, log); err != nil {
			return nil, script.Errorf(script.Invalid, "--artifact-registry-credentials", "%w", err)
		}
	}
	fetcher, err := artifact.New(cfg)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "--artifact-registries", "%w", err)
	}
	return fetcher, nil
}

// checkCredentials shows a mistake at the start; each fetch reads the file again.
func (a Artifacts) checkCredentials(modes tlsfiles.Modes, log *slog.Logger) error {
	config, err := os.ReadFile(a.Credentials)
	if err != nil {
		return err
	}
	if err := modes.Check(a.Credentials, log); err != nil {
		return err
	}
	return artifact.CheckCredentials(config)
}
