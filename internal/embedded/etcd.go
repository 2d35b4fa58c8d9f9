// Package embedded runs etcd and NATS inside the process, on loopback or on a Unix socket: for
// `scriptorium dev`, for demonstrations and for tests. They are the real servers,
// with the real durability.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"golang.org/x/crypto/bcrypt"
	"google.golang.org/grpc"
)

// EtcdConfig says where etcd keeps its data.
type EtcdConfig struct {
	// Dir keeps the data; a server started on it again continues with it.
	Dir string
	// Port on loopback; 0 takes a free one.
	Port int
	// Private serves on a Unix socket in Dir, which etcd keeps from other users, and not on
	// loopback, where every user of the machine could write.
	Private bool
	// CertFile and KeyFile are what it shows its clients, in PEM, and ClientCAFile has
	// those who vouch for them: then it speaks TLS, and asks for client certificates.
	CertFile, KeyFile, ClientCAFile string
	// QuotaBytes is the size at which it refuses writes; 0: etcd's own default.
	QuotaBytes int64
	// Log gets what is worth knowing; nil discards it.
	Log *slog.Logger
}

// Etcd is a running server of etcd with one member.
type Etcd struct {
	server   *embed.Etcd
	endpoint string
	streams  context.CancelFunc // ends watches
	stop     sync.Once
}

// clients returns where clients connect.
func (c EtcdConfig) clients() url.URL {
	if c.Private {
		return url.URL{Scheme: "unix", Path: filepath.Join(c.Dir, "etcd.sock")}
	}
	loopback := url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Port))}
	if c.CertFile != "" {
		loopback.Scheme = "https"
	}
	return loopback
}

// StartEtcd starts etcd and returns once it serves.
func StartEtcd(ctx context.Context, cfg EtcdConfig) (*Etcd, error) {
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if cfg.Private {
		if err := errors.Join(os.MkdirAll(cfg.Dir, 0o700), os.Chmod(cfg.Dir, 0o700)); err != nil {
			return nil, fmt.Errorf("keep other users from the folder of etcd: %w", err)
		}
	}
	c := embed.NewConfig()
	c.Dir = cfg.Dir
	c.Name = "scriptorium"
	loopback := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	// There are no peers, so there is nothing to listen on for them.
	c.ListenPeerUrls, c.AdvertisePeerUrls = nil, []url.URL{loopback}
	c.InitialCluster = c.Name + "=" + loopback.String()
	clients := cfg.clients()
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{clients}, []url.URL{clients}
	if cfg.CertFile != "" {
		c.ClientTLSInfo = transport.TLSInfo{
			CertFile: cfg.CertFile, KeyFile: cfg.KeyFile, TrustedCAFile: cfg.ClientCAFile, ClientCertAuth: cfg.ClientCAFile != "",
		}
	}
	// One member elects itself: the sooner the better.
	c.TickMs, c.ElectionMs = 20, 200
	c.AutoCompactionMode, c.AutoCompactionRetention = embed.CompactorModePeriodic, "1h"
	c.QuotaBackendBytes = cfg.QuotaBytes
	c.EnableGRPCGateway = false
	c.BcryptCost = uint(bcrypt.MinCost) // who has passwords here is a test
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	// Closing waits seconds for open watches to end by themselves, and they do not.
	stopping, cancel := context.WithCancel(context.Background())
	c.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ChainStreamInterceptor(endStreams(stopping))}

	server, err := embed.StartEtcd(c)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start etcd on %s: %w", cfg.Dir, err)
	}
	e := &Etcd{server: server, endpoint: clients.Scheme + "://" + server.Clients[0].Addr().String(), streams: cancel}
	select {
	case <-server.Server.ReadyNotify():
		log.Debug("etcd serves", "endpoint", e.endpoint, "dir", cfg.Dir)
		return e, nil
	case err, ok := <-server.Err():
		e.Stop()
		if !ok {
			err = errors.New("it stopped")
		}
		return nil, fmt.Errorf("start etcd on %s: %w", cfg.Dir, err)
	case <-ctx.Done():
		e.Stop()
		return nil, fmt.Errorf("start etcd on %s: not ready in time: %w", cfg.Dir, ctx.Err())
	}
}

// Endpoint is where clients connect: "http://127.0.0.1:PORT", or https, or "unix://PATH".
func (e *Etcd) Endpoint() string { return e.endpoint }

// Stop ends the server. Watches are cut off; what was acknowledged is on disk.
func (e *Etcd) Stop() {
	e.stop.Do(func() {
		e.streams()
		e.server.Close()
	})
}

// endStreams ends every stream once stopping is done.
func endStreams(stopping context.Context) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		ctx, cancel := context.WithCancel(ss.Context())
		defer cancel()
		defer context.AfterFunc(stopping, cancel)()
		return handler(srv, endingStream{ServerStream: ss, ctx: ctx})
	}
}

type endingStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s endingStream) Context() context.Context { return s.ctx }
