package hostile

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Clients of the registry that mean harm.
const (
	nameless = iota // shows no certificate
	refused         // shows one that the policy does not name
)

var ofRegistry = methods{
	"scriptorium.registry.v1.Registry", "/scriptorium.registry.v1.Registry/Publish", "/scriptorium.registry.v1.Registry/Import", "/scriptorium.registry.v1.Registry/List",
}

// ofHealth is what clients may call that the registry does not know.
var ofHealth = methods{"grpc.health.v1.Health", checkAll, watchAll, checkAll}

// policy names one client by its certificate. Another could show a token, so that the listener
// takes clients without a certificate, too.
const policy = `
subjects:
  - name: good
    certificates: [{commonName: good}]
    grants: [{roles: [admin], tenants: ["*"]}]
  - name: ci
    tokens: ["sha256:%s"]
    grants: [{roles: [publish], tenants: [acme]}]
`

// registry is the registry's process; etcd and NATS are in this one.
type registry struct {
	*victim
	address string
	harm    map[int]*tls.Config
	good    *tls.Config
}

// echoName is the script that good clients read.
var echoName = script.Name{Tenant: "acme", Script: "echo"}

// startRegistry starts a registry with a script.
func startRegistry(t *testing.T) *registry {
	t.Helper()
	dir := t.TempDir()
	etcd, err := embedded.StartEtcd(t.Context(), embedded.EtcdConfig{Dir: filepath.Join(dir, "etcd")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Stop)
	nats, err := embedded.StartNATS(t.Context(), embedded.NATSConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nats.Stop)
	if _, _, err := registryd.Found(t.Context(), registryd.Config{
		EtcdEndpoints: []string{etcd.Endpoint()}, EtcdPrefix: "/hostile/", Log: slog.New(slog.DiscardHandler),
		Security: registryd.Security{InsecurePlaintext: true},
	}); err != nil {
		t.Fatal(err)
	}
	ca := certtest.NewCA(t)
	server, good, other := ca.Issue("server", certtest.Leaf{}), ca.Issue("good", certtest.Leaf{CommonName: "good"}), ca.Issue("other", certtest.Leaf{CommonName: "other"})
	file := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, policy, strings.Repeat("0", 64)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &registry{victim: newVictim(t), address: porttest.Address(t)}
	r.good = clientOf(t, ca, &good)
	r.harm = map[int]*tls.Config{nameless: clientOf(t, ca, nil), refused: clientOf(t, ca, &other)}
	r.start([]string{
		"registryd", "--listen", r.address, "--admin-address", r.admin, "--tls-cert", server.Cert, "--tls-key", server.Key, "--tls-client-ca", ca.File,
		"--access-policy", file, "--etcd-endpoints", etcd.Endpoint(), "--etcd-prefix", "/hostile/", "--nats-url", nats.URL(),
		"--insecure-plaintext", "--insecure-unsigned", "--log-level", "error",
	})
	r.await("the registry is ready", func() bool { _, err := get("tcp", r.admin, "/readyz"); return err == nil })
	c := r.client()
	defer c.Close()
	if _, err := c.Publish(t.Context(), registryclient.PublishRequest{Name: echoName, Source: []byte("function handle() return 1 end"), Write: registryclient.Write{Author: "test"}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// clientOf returns how a client connects that shows the certificate, if it has one.
func clientOf(t *testing.T, ca *certtest.CA, pair *certtest.Pair) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(ca.File)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost", NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13}
	config.RootCAs.AppendCertsFromPEM(text)
	if pair == nil {
		return config
	}
	shown, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	config.Certificates = []tls.Certificate{shown}
	return config
}

// connect implements target.
func (r *registry) connect(socket string, client int) (net.Conn, error) {
	if socket == "tcp" {
		return net.Dial("tcp", r.address)
	}
	return tls.Dial("tcp", r.address, r.harm[client])
}

// client returns one that the policy names.
func (r *registry) client() *registryclient.Client {
	c, err := registryclient.Dial(r.address, registryclient.WithTLS(r.good), registryclient.WithTimeout(patience))
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// served implements target.
func (r *registry) served(t *testing.T) {
	t.Helper()
	c := r.client()
	defer c.Close()
	if _, err := c.Get(t.Context(), echoName); err != nil {
		t.Errorf("a new caller got %v", err)
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if _, err := get("tcp", r.admin, path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// bystander calls all the time, until stop is called. Each of its calls has to succeed.
func (r *registry) bystander(during *atomic.Pointer[string]) (calls *atomic.Int64, stop func()) {
	calls = &atomic.Int64{}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		c := r.client()
		defer c.Close()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if _, err := c.Get(context.Background(), echoName); err != nil {
				r.t.Errorf("during %q a caller who means well got %v", *during.Load(), err)
			}
			calls.Add(1)
		}
	})
	return calls, func() { cancel(); running.Wait() }
}

// registryAttacks are those over gRPC, of clients that the registry does not know, and some that
// do not come as far.
func registryAttacks() []attack {
	all := grpcAttacks(ofRegistry)
	for _, at := range ofHealth.messages() {
		at.idea, at.socket = at.idea+", as health checks", "grpc"
		all = append(all, at)
	}
	all = slices.DeleteFunc(all, func(at attack) bool {
		// There is one kind of client alone, and many handshakes take long.
		return strings.HasPrefix(at.idea, "the same of") || at.family == "gRPC: frames" && at.own
	})
	for i := range all {
		all[i].family = "The registry, of clients that it does not know"
		all[i].from, all[i].own, all[i].most = []int{nameless, refused}, false, unknown
	}
	hello := "\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03" + strings.Repeat("x", 8000)
	early := []attack{
		{idea: "connections without a handshake", run: func(a *arena) { a.each(600, "") }},
		{idea: "handshakes that do not end", run: func(a *arena) { a.each(600, hello[:100]) }},
		{idea: "large handshakes that do not end", most: strangers, run: func(a *arena) { a.each(600, hello) }},
		sends("protocols without TLS", http2.ClientPreface, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", command("PING"), everyByte(), "\x16\x03\x01\xff\xff", "\x15\x03\x03\x00\x02\x02\x28"),
	}
	for i := range early {
		early[i].family, early[i].socket, early[i].from = "The registry, before TLS", "tcp", []int{nameless}
	}
	return append(early, all...)
}

// TestRegistry makes the attacks over gRPC on a registry, of clients without a certificate and of
// such as its policy does not name. Meanwhile and afterwards others are served.
func TestRegistry(t *testing.T) {
	r := startRegistry(t)
	during := &atomic.Pointer[string]{}
	during.Store(new(string))
	calls, stop := r.bystander(during)
	worst := map[string]grown{}
	for range *rounds {
		for _, at := range registryAttacks() {
			t.Run(at.idea, func(t *testing.T) { at.make(t, r, during, at.socket, worst) })
		}
	}
	stop()
	t.Logf("%d attacks, %d calls of others", len(registryAttacks()), calls.Load())
	if *showTable {
		printTable(registryAttacks(), worst)
	}
}
