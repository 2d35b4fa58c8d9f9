package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/crypto/bcrypt"
)

// NATSConfig says where NATS listens.
type NATSConfig struct {
	// Port on loopback; 0 takes a free one. A server that was stopped comes back
	// at its address by naming its Port.
	Port int
	// MaxPayload is the size of the largest message; NATS' default if 0.
	MaxPayload int32
	// User and Password that clients have to show; none if empty.
	User, Password string
	// ConfigFile, if not empty, configures the server as `nats-server --config` does,
	// but for where it listens. The fields above it but Port are then not used.
	ConfigFile string
	// Log gets warnings and errors; nil discards them.
	Log *slog.Logger
}

func (c NATSConfig) options() (*server.Options, error) {
	options := &server.Options{MaxPayload: c.MaxPayload}
	if c.User != "" {
		hash, err := bcrypt.GenerateFromPassword([]byte(c.Password), bcrypt.MinCost)
		if err != nil {
			return nil, fmt.Errorf("configure NATS: the password: %w", err)
		}
		options.Username, options.Password = c.User, string(hash)
	}
	if c.ConfigFile != "" {
		var err error
		if options, err = server.ProcessConfigFile(c.ConfigFile); err != nil {
			return nil, fmt.Errorf("configure NATS: %w", err)
		}
	}
	options.ServerName, options.NoSigs = "scriptorium", true
	options.Host, options.Port = "127.0.0.1", c.Port
	if c.Port == 0 {
		options.Port = server.RANDOM_PORT
	}
	return options, nil
}

const startTimeout = 10 * time.Second

// NATS is a running NATS server.
type NATS struct {
	server *server.Server
	port   int
}

// StartNATS starts NATS and returns once it serves.
func StartNATS(ctx context.Context, cfg NATSConfig) (*NATS, error) {
	options, err := cfg.options()
	if err != nil {
		return nil, err
	}
	s, err := server.NewServer(options)
	if err != nil {
		return nil, fmt.Errorf("start NATS: %w", err)
	}
	log := natsLog{log: cfg.Log, fatal: make(chan string, 1)}
	if log.log == nil {
		log.log = slog.New(slog.DiscardHandler)
	}
	s.SetLoggerV2(log, false, false, false)
	s.Start() // returns at once
	ready := make(chan bool, 1)
	go func() { ready <- s.ReadyForConnections(startTimeout) }()
	var failure error
	select {
	case ok := <-ready:
		if !ok {
			failure = fmt.Errorf("not ready within %v", startTimeout)
		}
	case reason := <-log.fatal:
		failure = errors.New(reason)
	case <-ctx.Done():
		failure = ctx.Err()
	}
	if failure != nil {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("start NATS on port %d: %w", cfg.Port, failure)
	}
	return &NATS{server: s, port: s.Addr().(*net.TCPAddr).Port}, nil
}

// URL is where clients connect: "nats://127.0.0.1:PORT".
func (n *NATS) URL() string { return fmt.Sprintf("nats://127.0.0.1:%d", n.port) }

// Port is the one that the server listens on, or did until it was stopped.
func (n *NATS) Port() int { return n.port }

// Stop ends the server and waits until its port is free.
func (n *NATS) Stop() {
	n.server.Shutdown()
	n.server.WaitForShutdown()
}

// natsLog writes the server's log to slog.
type natsLog struct {
	log   *slog.Logger
	fatal chan string // gets the first reason why the server cannot go on
}

func (l natsLog) Noticef(format string, v ...any) { l.log.Debug("nats: " + fmt.Sprintf(format, v...)) }

func (l natsLog) Warnf(format string, v ...any) { l.log.Warn("nats: " + fmt.Sprintf(format, v...)) }

func (l natsLog) Errorf(format string, v ...any) { l.log.Error("nats: " + fmt.Sprintf(format, v...)) }
func (l natsLog) Debugf(string, ...any)          {}
func (l natsLog) Tracef(string, ...any)          {}

func (l natsLog) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
		l.log.Error("nats: " + fmt.Sprintf(format, v...))
	}
}
