package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/local"
)

// modules starts Caddy with the module in gateways/caddy: alone, with an agent in its process, and
// asking the agent beside it.
func (w *gatewayWorld) modules(ctx context.Context, progress io.Writer, gate manifest.Manifest) error {
	path := filepath.Join(w.dir, "caddy-module")
	fmt.Fprintln(progress, "loadtest: building Caddy with its module")
	build := exec.CommandContext(ctx, "go", "-C", "gateways/caddy", "build", "-o", path, "./cmd/caddy")
	build.Stderr = progress
	if err := build.Run(); err != nil {
		return fmt.Errorf("build Caddy with its module: %w", err)
	}
	agent, err := w.startRegistry(ctx, gate)
	if err != nil {
		return err
	}
	const site = ":8080 {\n%s\treverse_proxy 127.0.0.1:9000\n}\n"
	for name, directive := range map[string]string{
		"module/alone": "", "module/in process": "\tscriptorium acme/gate {\n" + agent + "\t}\n",
		"module/socket": "\tscriptorium acme/gate {\n\t\tsocket /run/scriptorium/http.sock\n\t}\n",
	} {
		g := &gatewayProcess{name: name}
		if name == "module/socket" {
			g.decider = w.agent
		}
		if err := w.caddy(ctx, g, path, fmt.Sprintf(site, directive)); err != nil {
			return err
		}
	}
	return nil
}

// startRegistry starts a registry with the script, and returns the settings of an agent that follows it.
func (w *gatewayWorld) startRegistry(ctx context.Context, gate manifest.Manifest) (agent string, err error) {
	s, err := local.Start(ctx, filepath.Join(w.dir, "registry"), 0, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	w.stops = append(w.stops, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = s.Stop(ctx)
	})
	registry, err := registryclient.Dial(s.RegistryTarget())
	if err != nil {
		return "", err
	}
	req := gate.Publish()
	req.Author = "loadtest"
	_, err = registry.Publish(ctx, req)
	if err = errors.Join(err, registry.Close()); err != nil {
		return "", err
	}
	known := s.AgentSecurity()
	settings := [][2]string{
		{"registry", s.RegistryTarget()},
		{"nats_url", s.NATSURL()},
		{"state_dir", filepath.Join(w.dir, "module")},
		{"trusted_key", strings.Join(known.TrustedKeys, " ")},
		{"nats_user", known.NATS.User},
		{"nats_password_file", known.NATS.PasswordFile},
		{"insecure_plaintext", ""},
	}
	for _, s := range settings {
		agent += fmt.Sprintf("\t\t%s %s\n", s[0], s[1])
	}
	return agent, nil
}

// caddy runs the program with one processor.
func (w *gatewayWorld) caddy(ctx context.Context, g *gatewayProcess, program, config string) error {
	return w.listen(ctx, g, func(address string) (*exec.Cmd, error) {
		file, err := w.write(g.fileName(), "{\n\tadmin off\n\tlog {\n\t\tlevel ERROR\n\t}\n}\n"+w.localized(config, address))
		cmd := exec.CommandContext(ctx, program, "run", "--adapter", "caddyfile", "--config", file)
		cmd.Env = append(os.Environ(), "HOME="+w.dir, "GOMAXPROCS=1")
		return cmd, err
	})
}
