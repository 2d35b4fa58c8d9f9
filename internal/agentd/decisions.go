package agentd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/natssink"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/opasink"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/otlpsink"
	"github.com/scriptorium-dev/scriptorium/internal/otelenv"
	"github.com/scriptorium-dev/scriptorium/internal/otlplogs"
	"github.com/scriptorium-dev/scriptorium/internal/security"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
)

// decisionLogHelp is what --decision-log takes.
const decisionLogHelp = "where records of calls go that spec.log.decisions of a script or a tenant asks for. file:PATH?max-size=100MiB&keep=5 and stdout are local. " +
	"opa:URL?token-file=FILE&ca=FILE&cert=FILE&key=FILE&upload-size=512KiB is a service for decision logs of OPA. otlp is the collector that the variables OTEL_* name. " +
	"nats?jetstream=true are the servers of --nats-url. For several, use ; or repeat the flag"

// decisionSinks are the kinds of sinks over the network.
func (cfg *Config) decisionSinks() decisionlog.Openers {
	return decisionlog.Openers{"opa": cfg.openOPA, "otlp": cfg.openOTLP, "nats": cfg.openNATS}
}

// openOPA makes the sink of opa:URL.
func (cfg *Config) openOPA(t *decisionlog.Target, env decisionlog.Env) (decisionlog.Sink, error) {
	sink := opasink.Config{URL: t.Where, Log: env.Log}
	modes := tlsfiles.ModesFor(cfg.Security.InsecureFileModes)
	files := tlsfiles.Files{CA: t.Text("ca", ""), Cert: t.Text("cert", ""), Key: t.Text("key", ""), Modes: modes}
	token := t.Text("token-file", "")
	const most = 64 << 20
	sink.UploadBytes = int(min(t.Size("upload-size", opasink.DefaultUploadBytes, 1<<10), most))
	if err := t.Err(); err != nil {
		return nil, err
	}
	secure := strings.HasPrefix(t.Where, "https:")
	switch named := files.CA != "" || files.Cert != "" || files.Key != ""; {
	case named && !secure:
		return nil, errors.New("names certificates for a URL without TLS: write https://")
	case secure:
		m, err := tlsfiles.Load(files, env.Log)
		if err != nil {
			return nil, fmt.Errorf("the options ca, cert and key: %w", err)
		}
		sink.TLS = func() (*tls.Config, error) { return m.Client() }
	case strings.HasPrefix(t.Where, "http:"):
		if err := security.Plaintext(cfg.Security.InsecurePlaintext, "", "the decision log's collector", "write https://", t.Where, env.Log); err != nil {
			return nil, err
		}
	}
	if token != "" {
		var err error
		if sink.Token, err = tlsfiles.Secret(token, modes, env.Log); err != nil {
			return nil, fmt.Errorf("the option token-file: %w", err)
		}
	}
	return opasink.New(sink)
}

// openOTLP makes the sink of otlp.
func (cfg *Config) openOTLP(t *decisionlog.Target, env decisionlog.Env) (decisionlog.Sink, error) {
	if t.Where != "" {
		return nil, errors.New("takes no address here: set OTEL_EXPORTER_OTLP_LOGS_ENDPOINT")
	}
	if err := t.Err(); err != nil {
		return nil, err
	}
	ctx := context.Background() // nothing waits for it
	exporter, endpoint, err := otlplogs.NewExporter(ctx)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(endpoint, "http:") {
		const instead = "name one with https:// in OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"
		err = security.Plaintext(cfg.Security.InsecurePlaintext, "", "the decision log's collector", instead, endpoint, env.Log)
	}
	res, resourceErr := otelenv.Resource(ctx, service, env.Agent)
	if err = errors.Join(err, resourceErr); err != nil {
		return nil, errors.Join(err, exporter.Shutdown(ctx))
	}
	return otlpsink.New(otlpsink.Config{Exporter: exporter, Resource: res, Log: env.Log}), nil
}

// openNATS makes the sink of nats.
func (cfg *Config) openNATS(t *decisionlog.Target, env decisionlog.Env) (decisionlog.Sink, error) {
	sink := natssink.Config{URLs: cfg.NATS, Subjects: wire.Subjects{Prefix: cfg.SubjectPrefix}, Agent: env.Agent, JetStream: t.Bool("jetstream"), Log: env.Log}
	if t.Where != "" {
		return nil, errors.New("takes no address here: the servers are those of --nats-url")
	}
	if err := t.Err(); err != nil {
		return nil, err
	}
	var err error
	sink.Security, err = cfg.Security.NATS.Open(cfg.NATS, cfg.Security.InsecurePlaintext, tlsfiles.ModesFor(cfg.Security.InsecureFileModes), env.Log)
	if err != nil {
		return nil, err
	}
	return natssink.New(sink)
}
