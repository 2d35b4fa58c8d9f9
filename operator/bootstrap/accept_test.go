package bootstrap_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
	"github.com/scriptorium-dev/scriptorium/operator/bootstrap"
	"github.com/scriptorium-dev/scriptorium/script"
)

const patience = 30 * time.Second

// fleet is everything that the Secrets are for, with the flags and variables that the
// package's comment names, and the Secrets mounted where it says.
type fleet struct {
	t        *testing.T
	dir      string // in place of /etc/scriptorium
	replace  *strings.Replacer
	registry string
	nats     string
	etcd     string
	sockets  string
}

// mount writes the Secrets to files as the kubelet does.
func (f *fleet) mount(p *place) {
	for name, s := range p.all() {
		dir := filepath.Join(f.dir, strings.TrimPrefix(name, "scriptorium-"))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			f.t.Fatal(err)
		}
		for key, value := range s.Data {
			if err := os.WriteFile(filepath.Join(dir, key), value, 0o600); err != nil {
				f.t.Fatal(err)
			}
		}
	}
}

func (f *fleet) file(secret, key string) string {
	return filepath.Join(f.dir, strings.TrimPrefix(secret, "scriptorium-"), key)
}

// words returns what the package's comment says for the program: flags, or variables.
func (f *fleet) words(program string) []string {
	f.t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		f.t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "\n//\t"+program)
	_, after, _ = strings.Cut(after, "\n")
	var words []string
	for line := range strings.Lines(after) {
		rest, inside := strings.CutPrefix(line, "//\t  ")
		if !inside {
			break
		}
		rest, _, _ = strings.Cut(rest, "(")
		words = append(words, strings.Fields(f.replace.Replace(rest))...)
	}
	if !found || len(words) == 0 {
		f.t.Fatalf("doc.go says nothing of %s", program)
	}
	return words
}

// setenv sets the variables among the words.
func (f *fleet) setenv(program string) {
	for _, word := range f.words(program) {
		name, value, _ := strings.Cut(word, "=")
		f.t.Setenv(name, value)
	}
}

// daemon runs the command until the test ends.
func (f *fleet) daemon(cmd *cobra.Command, program string, more ...string) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	cmd.SetArgs(append(f.words(program), more...))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			f.t.Errorf("%s: %v", program, err)
		}
	})
}

// run runs a command of the program to its end.
func (f *fleet) run(cmd *cobra.Command, command string) {
	f.t.Helper()
	_, name, _ := strings.Cut(command, " ")
	cmd.SetArgs(append([]string{name}, f.words(command)...))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.ExecuteContext(f.t.Context()); err != nil {
		f.t.Fatalf("%s: %v", command, err)
	}
}

func startFleet(t *testing.T, p *place) *fleet {
	t.Helper()
	dir, err := os.MkdirTemp("", "fleet") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	f := &fleet{t: t, dir: filepath.Join(dir, "etc"), registry: porttest.Address(t), sockets: filepath.Join(dir, "run")}
	f.mount(p)
	etcd, err := embedded.StartEtcd(t.Context(), embedded.EtcdConfig{
		Dir:      filepath.Join(dir, "etcd"),
		CertFile: f.file(bootstrap.EtcdTLS, "tls.crt"), KeyFile: f.file(bootstrap.EtcdTLS, "tls.key"), ClientCAFile: f.file(bootstrap.EtcdTLS, "ca.crt"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Stop)
	f.etcd = strings.TrimPrefix(etcd.Endpoint(), "https://")
	f.replace = strings.NewReplacer("/etc/scriptorium", f.dir)
	f.setenv("nats-server")
	for key, value := range p.all()[bootstrap.NATSUsers].Data { // envFrom
		t.Setenv(key, string(value))
	}
	n, err := embedded.StartNATS(t.Context(), embedded.NATSConfig{ConfigFile: "../../deploy/nats/nats-server.conf"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Stop)
	f.nats = strings.TrimPrefix(n.URL(), "nats://")
	f.replace = strings.NewReplacer(
		"/etc/scriptorium", f.dir, "/run/scriptorium", f.sockets,
		"scriptorium-etcd:2379", f.etcd, "scriptorium-nats:4222", f.nats,
		"scriptorium-registry:7070", f.registry, "--listen :7070", "--listen "+f.registry,
	)
	f.run(registryd.Command(), "registryd init")
	f.daemon(registryd.Command(), "registryd", "--log-level=error")
	f.daemon(agentd.Command(), "agentd", "--log-level=error", "--name=n1", "--state-dir="+filepath.Join(dir, "state"), "--socket-dir="+f.sockets)
	return f
}

// tls shows the certificate of the Secret; "" shows none.
func (f *fleet) tls(secret string) *tls.Config {
	f.t.Helper()
	ca, err := os.ReadFile(f.file(bootstrap.Trust, "ca.crt"))
	if err != nil {
		f.t.Fatal(err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool()}
	c.RootCAs.AppendCertsFromPEM(ca)
	if secret == "" {
		return c
	}
	pair, err := tls.LoadX509KeyPair(f.file(secret, "tls.crt"), f.file(secret, "tls.key"))
	if err != nil {
		f.t.Fatal(err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c
}

// as returns a client with the certificate of the Secret.
func (f *fleet) as(secret string) *registryclient.Client {
	f.t.Helper()
	c, err := registryclient.Dial(f.registry, registryclient.WithTLS(f.tls(secret)))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = c.Close() })
	return c
}

func await(t *testing.T, what string, condition func() error) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.After(patience)
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-timeout:
			t.Fatalf("never: %s: %v", what, err)
		}
	}
}

func publish(ctx context.Context, c *registryclient.Client, source string) error {
	_, err := c.Publish(ctx, registryclient.PublishRequest{
		Name: script.Name{Tenant: "acme", Script: "greet"}, Source: []byte(source),
		Write: registryclient.Write{Author: "a test"},
	})
	return err
}

// TestTheProgramsTakeThem and work with each other, each as far as it may.
func TestTheProgramsTakeThem(t *testing.T) {
	p := newPlace(t)
	p.must()
	f := startFleet(t, p)

	operator := f.as(bootstrap.OperatorTLS)
	await(t, "the operator publishes", func() error {
		return publish(t.Context(), operator, "function handle() return 1 end")
	})
	agent, err := agentclient.New(filepath.Join(f.sockets, "grpc.sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Close() })
	await(t, "the agent runs it", func() error {
		_, err := agent.Call(t.Context(), "acme/greet")
		return err
	})
	await(t, "the agent has reported over NATS", func() error {
		status, err := operator.Status(t.Context(), script.Name{Tenant: "acme", Script: "greet"})
		if err == nil && (len(status.Scripts) != 1 || !status.Scripts[0].Converged) {
			err = errors.New("not converged")
		}
		return err
	})

	t.Run("the admin may", func(t *testing.T) {
		if err := publish(t.Context(), f.as(bootstrap.AdminTLS), "function handle() return 2 end"); err != nil {
			t.Error(err)
		}
	})
	for name, secret := range map[string]string{
		"agents publish nothing": bootstrap.AgentTLS, "nobody else does": "",
		"certificates of servers are not for clients": bootstrap.NATSTLS, "certificates for etcd are not for the registry": bootstrap.RegistryEtcd,
	} {
		t.Run(name, func(t *testing.T) {
			answered := secret == bootstrap.AgentTLS || secret == ""
			enough := 2 * time.Second // nothing comes of a connection that is refused again and again
			if answered {
				enough = patience
			}
			ctx, cancel := context.WithTimeout(t.Context(), enough)
			defer cancel()
			if err := publish(ctx, f.as(secret), "function handle() return 3 end"); err == nil {
				t.Error("published")
			} else if kind := script.KindOf(err); answered && kind != script.Denied {
				t.Errorf("%v: %v", kind, err)
			}
		})
	}
	t.Run("the agent's certificate does not open etcd", func(t *testing.T) {
		c := f.tls(bootstrap.AgentTLS)
		etcdCA, err := os.ReadFile(f.file(bootstrap.EtcdTLS, "ca.crt"))
		if err != nil {
			t.Fatal(err)
		}
		c.RootCAs.AppendCertsFromPEM(etcdCA)
		if err := greet(t, f.etcd, c); err == nil || !strings.Contains(err.Error(), "remote error: tls") {
			t.Errorf("%v, want a refusal", err)
		}
		c.Certificates = f.tls(bootstrap.RegistryEtcd).Certificates
		if err := greet(t, f.etcd, c); err != nil {
			t.Errorf("the registry's: %v", err)
		}
	})
	t.Run("agents announce nothing", func(t *testing.T) {
		if err := f.forge(natsUser{"agent", bootstrap.AgentNATS}); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%v, want a refusal", err)
		}
		if err := f.forge(natsUser{"registry", bootstrap.RegistryNATS}); err != nil {
			t.Errorf("the registry: %v", err)
		}
	})
	t.Run("scriptctl in the agent's pod", func(t *testing.T) {
		f.t = t
		f.setenv("scriptctl")
		for _, args := range [][]string{{"list", "acme"}, {"status", "acme/greet"}, {"agents"}, {"call", "acme/greet"}} {
			var out, said bytes.Buffer
			if code := scriptctl.Run(t.Context(), scriptctl.Streams{In: strings.NewReader(""), Out: &out, Err: &said}, args); code != 0 || out.Len() == 0 {
				t.Errorf("%v: exit code %d\n%s%s", args, code, out.String(), said.String())
			}
		}
	})
}

// greet says the first words of HTTP/2 and returns how the other end takes them.
func greet(t *testing.T, address string, c *tls.Config) error {
	t.Helper()
	conn, err := (&tls.Dialer{Config: c}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// natsUser is a user of NATS and the Secret with its password.
type natsUser struct{ name, secret string }

// forge publishes an event as the user.
func (f *fleet) forge(user natsUser) error {
	password, err := os.ReadFile(f.file(user.secret, "password"))
	if err != nil {
		return err
	}
	c, err := nats.Connect("tls://"+f.nats, nats.Secure(f.tls("")), nats.UserInfo(user.name, string(password)),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // not to standard error
	if err != nil {
		return err
	}
	defer c.Close()
	if err := errors.Join(c.Publish("scriptorium.feed.all.event", []byte("forged")), c.Flush()); err != nil {
		return err
	}
	// The server's refusal comes before its answer to the flush.
	return c.LastError()
}
