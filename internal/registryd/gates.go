package registryd

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/gate"
	"github.com/scriptorium-dev/scriptorium/script"
)

// gates are the sources that steps of rollouts ask, as the file of --gates says.
type gates struct {
	*gate.Sources
	file  string
	modes tlsfiles.Modes
	watch *tlsfiles.Watch
	log   *slog.Logger

	answers *prometheus.CounterVec
}

// openGates reads the file; with "" there are no sources.
func openGates(file string, modes tlsfiles.Modes, log *slog.Logger) (*gates, error) {
	g := &gates{
		file: file, modes: modes, log: log,
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "gate_answers_total",
			Help: "Answers of gates that this replica asked, by the source and the result: pass, wait, abort or error.",
		}, []string{"source", "result"}),
	}
	g.Sources = gate.NewSources(log, func(source string, r fleet.GateResult) { g.answers.WithLabelValues(source, string(r)).Inc() })
	if file == "" {
		return g, nil
	}
	g.watch = tlsfiles.NewWatch(file)
	if err := g.read(); err != nil {
		return nil, script.Errorf(script.Invalid, "--gates", "%w", err)
	}
	return g, nil
}

// read has the registry ask what the file says.
func (g *gates) read() error {
	definitions, err := gate.Load(g.file)
	if err != nil {
		return err
	}
	sources := make([]gate.Source, len(definitions))
	for i, d := range definitions {
		if sources[i], err = g.open(d); err != nil {
			return script.Errorf(script.Invalid, g.file, "%w", script.Errorf(script.Invalid, fmt.Sprintf("sources[%d]", i), "%w", err))
		}
	}
	g.Replace(sources)
	for _, d := range definitions {
		if d.URL.Scheme == "http" {
			g.log.Warn("a gate is not encrypted: whoever is on the way decides what goes live", "gate", string(d.Kind)+"/"+d.Name, "url", d.URL.String())
		}
	}
	return nil
}

// open reads the files that the source names.
func (g *gates) open(d gate.Definition) (gate.Source, error) {
	s := gate.Source{Name: d.Name, Kind: d.Kind, URL: d.URL, Tenants: d.Tenants}
	if d.TokenFile != "" {
		token, err := tlsfiles.Secret(d.TokenFile, g.modes, g.log)
		if err != nil {
			return s, script.Errorf(script.Invalid, "tokenFile", "%w", err)
		}
		s.Token = token
	}
	if d.URL.Scheme != "https" {
		return s, nil
	}
	m, err := tlsfiles.Load(tlsfiles.Files{CA: d.CAFile, Modes: g.modes}, g.log)
	if err != nil {
		return s, script.Errorf(script.Invalid, "caFile", "%w", err)
	}
	s.TLS = func() (*tls.Config, error) {
		cfg, err := m.Client()
		if err == nil {
			cfg.MinVersion = tls.VersionTLS12 // others have servers of other ages
		}
		return cfg, err
	}
	return s, nil
}

// run keeps the sources as the file says, until ctx is done.
func (g *gates) run(ctx context.Context) {
	if g.watch == nil {
		return
	}
	g.watch.Run(ctx, policyInterval, func() {
		if err := g.read(); err != nil {
			g.log.Error("the file of gates was replaced by one that cannot be used; the old sources stay", "error", oneLine(err))
			return
		}
		g.log.Info("the file of gates was read again", "file", g.file)
	})
}

func (g *gates) register(r prometheus.Registerer) error { return r.Register(g.answers) }
