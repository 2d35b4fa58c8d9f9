package scriptorium_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/crypto/bcrypt"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
)

// secured is a fleet in which nothing is insecure: its files, and its processes.
type secured struct {
	t   *testing.T
	dir string
	ca  *certtest.CA

	etcd            *embedded.Etcd
	nats            *embedded.NATS
	registry, admin string // addresses
	process         *daemon
}

func (s *secured) file(name string) string { return filepath.Join(s.dir, name) }

func (s *secured) write(name, text string) string {
	s.t.Helper()
	if err := os.WriteFile(s.file(name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return s.file(name)
}

// issue puts a certificate, and its key, into files of the fleet.
func (s *secured) issue(name string, leaf certtest.Leaf) *x509.Certificate {
	s.t.Helper()
	pair := s.ca.Issue(name, leaf)
	for from, to := range map[string]string{pair.Cert: name + ".crt", pair.Key: name + ".key"} {
		text, err := os.ReadFile(from)
		if err != nil {
			s.t.Fatal(err)
		}
		s.write(to, string(text))
	}
	return pair.Certificate
}

// issueAll makes, or renews, all certificates but etcd's: etcd reads its CA once.
func (s *secured) issueAll() (registry *x509.Certificate) {
	s.issue("nats", certtest.Leaf{CommonName: "nats"})
	s.issue("agent", certtest.Leaf{URI: "spiffe://test/agent"})
	s.issue("stranger", certtest.Leaf{CommonName: "stranger"})
	return s.issue("registry", certtest.Leaf{CommonName: "registry"})
}

const ciToken, adminToken = "the token of the pipeline, which is long", "the token of the administrator, which is long"

const policyOfFleet = `
subjects:
  - name: agents
    certificates: [{uri: spiffe://test/agent}]
    grants: [{roles: [read], tenants: ["*"]}]
  - name: ci
    tokens: [%s]
    grants: [{roles: [publish], tenants: [acme]}]
  - name: admin
    tokens: [%s]
    grants: [{roles: [admin], tenants: ["*"]}]
`

func digestOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func hash(t *testing.T, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

func startSecured(t *testing.T) *secured {
	t.Helper()
	dir, err := os.MkdirTemp("", "secured") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &secured{t: t, dir: dir, ca: certtest.NewCA(t), registry: porttest.Address(t), admin: porttest.Address(t)}
	text, err := os.ReadFile(s.ca.File)
	if err != nil {
		t.Fatal(err)
	}
	s.write("ca.crt", string(text))
	s.write("etcd-ca.crt", string(text))
	for name, user := range map[string]string{"etcd": "etcd", "etcd-root": "root", "etcd-client": "registry"} {
		s.issue(name, certtest.Leaf{CommonName: user})
	}
	s.issueAll()
	s.write("policy.yaml", fmt.Sprintf(policyOfFleet, digestOf(ciToken), digestOf(adminToken)))
	s.write("ci.token", ciToken+"\n")
	s.write("admin.token", adminToken+"\n")
	s.write("registry.password", "the registries' own\n")
	s.write("agent.password", "the agents' own\n")
	for _, key := range []string{"first", "second"} {
		s.must("keys", "generate", "--out", s.file(key+".key"), "--public", s.file(key+".pem"))
	}
	s.trust("first")
	for name, value := range map[string]string{
		"NATS_TLS_CERT": s.file("nats.crt"), "NATS_TLS_KEY": s.file("nats.key"), "NATS_TLS_CA": s.file("ca.crt"),
		"REGISTRY_PASSWORD": hash(t, "the registries' own"), "AGENT_PASSWORD": hash(t, "the agents' own"),
	} {
		t.Setenv(name, value)
	}
	s.startEtcd()
	s.startNATS(porttest.Port(t))
	found(t, "--etcd-endpoints", s.etcd.Endpoint(), "--etcd-ca", s.file("etcd-ca.crt"), "--etcd-cert", s.file("etcd-client.crt"), "--etcd-key", s.file("etcd-client.key"))
	s.startRegistry("first")
	return s
}

// trust makes agents trust the keys.
func (s *secured) trust(keys ...string) {
	s.t.Helper()
	var all strings.Builder
	for _, key := range keys {
		text, err := os.ReadFile(s.file(key + ".pem"))
		if err != nil {
			s.t.Fatal(err)
		}
		all.Write(text)
	}
	s.write("trusted.pem", all.String())
}

func (s *secured) startEtcd() {
	s.t.Helper()
	var err error
	s.etcd, err = embedded.StartEtcd(s.t.Context(), embedded.EtcdConfig{
		Dir: s.file("etcd"), CertFile: s.file("etcd.crt"), KeyFile: s.file("etcd.key"), ClientCAFile: s.file("etcd-ca.crt"),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.etcd.Stop)
	root, err := tls.LoadX509KeyPair(s.file("etcd-root.crt"), s.file("etcd-root.key"))
	if err != nil {
		s.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	text, _ := os.ReadFile(s.file("etcd-ca.crt"))
	pool.AppendCertsFromPEM(text)
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{s.etcd.Endpoint()},
		TLS:       &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, Certificates: []tls.Certificate{root}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	ctx, prefix := s.t.Context(), "/scriptorium/"
	_, role := c.RoleAdd(ctx, "scriptorium")
	_, grant := c.RoleGrantPermission(ctx, "scriptorium", prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite))
	var users []error
	for user, role := range map[string]string{"registry": "scriptorium", "root": "root"} {
		_, added := c.UserAddWithOptions(ctx, user, "", &clientv3.UserAddOptions{NoPassword: true})
		_, granted := c.UserGrantRole(ctx, user, role)
		users = append(users, added, granted)
	}
	_, enabled := c.AuthEnable(ctx)
	if err := errors.Join(append(users, role, grant, enabled)...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *secured) startNATS(port int) {
	s.t.Helper()
	var err error
	s.nats, err = embedded.StartNATS(s.t.Context(), embedded.NATSConfig{ConfigFile: "../../deploy/nats/nats-server.conf", Port: port})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.nats.Stop)
}

func (s *secured) natsURL() string { return fmt.Sprintf("tls://127.0.0.1:%d", s.nats.Port()) }

func (s *secured) startRegistry(key string) {
	s.t.Helper()
	s.process = run(s.t, "registryd", []string{
		"--listen", s.registry, "--admin-address", s.admin,
		"--signing-key", s.file(key + ".key"), "--access-policy", s.file("policy.yaml"),
		"--tls-cert", s.file("registry.crt"), "--tls-key", s.file("registry.key"), "--tls-client-ca", s.file("ca.crt"),
		"--etcd-endpoints", s.etcd.Endpoint(), "--etcd-ca", s.file("etcd-ca.crt"), "--etcd-cert", s.file("etcd-client.crt"), "--etcd-key", s.file("etcd-client.key"),
		"--nats-url", s.natsURL(), "--nats-ca", s.file("ca.crt"), "--nats-user", "registry", "--nats-password-file", s.file("registry.password"),
	})
	s.awaitWell()
}

// awaitWell waits until the registry is ready, and has all that it needs.
func (s *secured) awaitWell() {
	s.t.Helper()
	await(s.t, "the registry is well", func() bool {
		code, body := get(s.t.Context(), s.admin, "/readyz")
		return code == http.StatusOK && !strings.Contains(body, "degraded")
	})
}

func (s *secured) stopRegistry() {
	s.t.Helper()
	if err := s.process.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	if code := s.process.exit(s.t); code != 0 {
		s.t.Errorf("the registry exits with %d", code)
	}
}

// startAgent starts one that shows the certificate; its variables stand for flags.
func (s *secured) startAgent(name, certificate string) (*daemon, *agentclient.Client) {
	s.t.Helper()
	sockets := s.file(name)
	d := run(s.t, "agentd", []string{"--name", name, "--socket-dir", sockets, "--state-dir", filepath.Join(sockets, "state")},
		"SCRIPTORIUM_TRUSTED_KEY="+s.file("trusted.pem"),
		"SCRIPTORIUM_REGISTRY="+s.registry, "SCRIPTORIUM_REGISTRY_CA="+s.file("ca.crt"),
		"SCRIPTORIUM_REGISTRY_CERT="+s.file(certificate+".crt"), "SCRIPTORIUM_REGISTRY_KEY="+s.file(certificate+".key"),
		"SCRIPTORIUM_NATS_URL="+s.natsURL(), "SCRIPTORIUM_NATS_CA="+s.file("ca.crt"),
		"SCRIPTORIUM_NATS_USER=agent", "SCRIPTORIUM_NATS_PASSWORD_FILE="+s.file("agent.password"))
	client, err := agentclient.New("unix:" + filepath.Join(sockets, "grpc.sock"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = client.Close() })
	return d, client
}

// ctl runs scriptctl and returns its exit code, and all that it said.
func (s *secured) ctl(args ...string) (int, string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	code := scriptctl.Run(ctx, scriptctl.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, args)
	return code, out.String()
}

func (s *secured) must(args ...string) {
	s.t.Helper()
	if code, out := s.ctl(args...); code != 0 {
		s.t.Fatalf("scriptctl %v: exit code %d\n%s", args, code, out)
	}
}

// as adds the flags to ask the registry with a token.
func (s *secured) as(token string, args ...string) []string {
	return append(args, "--registry", s.registry, "--ca", s.file("ca.crt"), "--token-file", s.file(token+".token"))
}

func (s *secured) publish(result string) {
	s.t.Helper()
	s.must(s.as("ci", "publish", s.manifest("acme", "return "+result), "--author", "test")...)
}

// manifest writes one of the script route.
func (s *secured) manifest(tenant, body string) string {
	s.t.Helper()
	return s.write(tenant+".yaml", fmt.Sprintf(`apiVersion: scriptorium.dev/v1alpha1
kind: LuaScript
metadata: {name: route}
spec:
  tenantId: %s
  source: function handle() %s end
`, tenant, body))
}

func (s *secured) awaitResult(client *agentclient.Client, want string) {
	s.t.Helper()
	await(s.t, "the agent answers "+want, func() bool {
		result, err := client.Call(s.t.Context(), "acme/route")
		return err == nil && string(result.Values[0]) == want
	})
}

// shown returns the certificate that the registry shows now.
func (s *secured) shown() *x509.Certificate {
	conn, err := tls.Dial("tcp", s.registry, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}}) //nolint:gosec // it is looked at
	if err != nil {
		return nil
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

// TestSecured: real processes with TLS, users, roles and signatures everywhere.
func TestSecured(t *testing.T) {
	s := startSecured(t)
	_, agent := s.startAgent("n1", "agent")
	s.publish("1")
	s.awaitResult(agent, "1")
	if strings.Contains(s.process.output.String(), "level=WARN") || strings.Contains(s.process.output.String(), `"WARN"`) {
		t.Errorf("the registry warns of something:\n%s", s.process.output)
	}

	t.Run("Refusals", s.testRefusals)
	t.Run("StrangeAgent", func(t *testing.T) {
		stranger, _ := s.startAgent("n2", "stranger")
		await(t, "the agent logs that the access policy does not name it", func() bool {
			return strings.Contains(stranger.output.String(), "access policy does not name the client certificate")
		})
	})
	t.Run("Renewal", func(t *testing.T) {
		bundle, err := os.ReadFile(s.ca.File)
		if err != nil {
			t.Fatal(err)
		}
		s.ca = certtest.NewCA(t)
		next, err := os.ReadFile(s.ca.File)
		if err != nil {
			t.Fatal(err)
		}
		s.write("ca.crt", string(bundle)+string(next))
		renewed := s.issueAll()
		await(t, "the registry shows the new certificate", func() bool { return renewed.Equal(s.shown()) })
		s.publish("2")
		s.awaitResult(agent, "2")

		port := s.nats.Port()
		s.nats.Stop()
		await(t, "the registry notices that NATS is gone", func() bool {
			_, body := get(t.Context(), s.admin, "/readyz")
			return strings.Contains(body, "NATS")
		})
		s.startNATS(port) // with the new certificate
		s.awaitWell()
		s.publish("3")
		s.awaitResult(agent, "3")
	})
	t.Run("NewSigningKey", func(*testing.T) {
		s.trust("first", "second")
		s.stopRegistry()
		s.startRegistry("second")
		s.publish("4")
		s.awaitResult(agent, "4")
		s.trust("second")
		s.publish("5")
		s.awaitResult(agent, "5")
	})
	t.Run("NewPolicy", func(t *testing.T) {
		s.write("policy.yaml", "subjects: [{name: ci}]")
		await(t, "the bad policy is in the log", func() bool {
			return strings.Contains(s.process.output.String(), "one that cannot be used")
		})
		if _, body := get(t.Context(), s.admin, "/metrics"); !strings.Contains(body, "scriptorium_registry_access_policy_current 0") {
			t.Error("the metric does not say that the policy is not in force")
		}
		s.publish("6")
		s.write("policy.yaml", fmt.Sprintf(policyOfFleet, digestOf("the token of another pipeline"), digestOf(adminToken)))
		await(t, "the old token is refused", func() bool {
			code, out := s.ctl(s.as("ci", "list")...)
			return code == 4 && strings.Contains(out, "does not name this token")
		})
		s.awaitResult(agent, "6")
	})
}

func (s *secured) testRefusals(t *testing.T) {
	address := []string{"--registry", s.registry}
	for _, tt := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"another role", s.as("ci", "delete", "acme/route", "--yes"), 4, "ci has no role admin for the tenant"},
		{"another role again", s.as("ci", "pin", "acme/route", "1"), 4, "ci has no role release"},
		{"another tenant", s.as("ci", "publish", s.manifest("shop", "")), 4, `ci has no role publish for the tenant "shop"`},
		{"fleet", s.as("ci", "agents"), 4, "ci has no role read"},
		{"no credentials", append([]string{"list", "--ca", s.file("ca.crt")}, address...), 4, "show it a client certificate or a bearer token"},
		{"certificate of nobody", append([]string{"list", "--ca", s.file("ca.crt"), "--cert", s.file("stranger.crt"), "--key", s.file("stranger.key")}, address...), 4, `does not name the client certificate: commonName "stranger"`},
		{"unknown CA", append([]string{"list", "--token-file", s.file("ci.token")}, address...), 5, "name that CA's file (scriptctl: --ca)"},
		{"plain text", append([]string{"list", "--insecure-plaintext", "--token-file", s.file("ci.token")}, address...), 5, "cannot reach the registry"},
		{"no such file", append([]string{"list", "--ca", "none.crt"}, address...), 2, "none.crt: cannot be read"},
		{"certificate without its key", append([]string{"list", "--cert", s.file("stranger.crt")}, address...), 2, "go together"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, out := s.ctl(append(tt.args, "--author", "test")...)
			if code != tt.code || !strings.Contains(out, tt.says) {
				t.Errorf("exit code %d, want %d, and %q in:\n%s", code, tt.code, tt.says, out)
			}
			if strings.Contains(out, ciToken) {
				t.Errorf("the output contains the token:\n%s", out)
			}
		})
	}
	t.Run("TokenVariable", func(t *testing.T) {
		t.Setenv("SCRIPTORIUM_TOKEN", adminToken)
		t.Setenv("SCRIPTORIUM_CA", s.file("ca.crt"))
		t.Setenv("SCRIPTORIUM_REGISTRY", s.registry)
		if code, out := s.ctl("agents"); code != 0 || !strings.Contains(out, "n1") {
			t.Errorf("exit code %d:\n%s", code, out)
		}
	})
	if _, body := get(t.Context(), s.admin, "/metrics"); !strings.Contains(body, `scriptorium_registry_callers_refused_total{reason="nothing_shown"} `) ||
		strings.Contains(body, `scriptorium_registry_callers_refused_total{reason="nothing_shown"} 0`) {
		t.Error("refusals are not counted")
	}
}
