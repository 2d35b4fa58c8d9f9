package etcdstore_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/credentials"

	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/embedded/etcdtest"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/etcdstore"
	"github.com/scriptorium-dev/scriptorium/registry/storetest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// securedPrefix is what the role of docs/security.md gives.
const securedPrefix = "/fleets/"

// secured is an etcd that wants client certificates and users.
type secured struct {
	etcd *embedded.Etcd
	ca   *certtest.CA
	root *clientv3.Client
}

func startSecured(t *testing.T) *secured {
	t.Helper()
	ca := certtest.NewCA(t)
	own := ca.Issue("etcd", certtest.Leaf{CommonName: "etcd"})
	server, err := embedded.StartEtcd(t.Context(), embedded.EtcdConfig{
		Dir: t.TempDir(), CertFile: own.Cert, KeyFile: own.Key, ClientCAFile: ca.File,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	s := &secured{etcd: server, ca: ca}
	s.root = s.client(t, "root")
	s.enable(t)
	return s
}

// client returns one that shows a certificate with the common name.
func (s *secured) client(t *testing.T, commonName string) *clientv3.Client {
	t.Helper()
	own := s.ca.Issue(commonName, certtest.Leaf{CommonName: commonName})
	pair, err := tls.LoadX509KeyPair(own.Cert, own.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	text, err := os.ReadFile(s.ca.File)
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{s.etcd.Endpoint()},
		TLS:       &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, Certificates: []tls.Certificate{pair}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// enable does what docs/security.md tells to do with etcdctl.
func (s *secured) enable(t *testing.T) {
	t.Helper()
	ctx, c := t.Context(), s.root
	_, role := c.RoleAdd(ctx, "scriptorium")
	_, grant := c.RoleGrantPermission(ctx, "scriptorium", securedPrefix, clientv3.GetPrefixRangeEnd(securedPrefix), clientv3.PermissionType(clientv3.PermReadWrite))
	_, byCert := c.UserAddWithOptions(ctx, "registry", "", &clientv3.UserAddOptions{NoPassword: true})
	_, byPassword := c.UserAdd(ctx, "registry-2", "first")
	_, root := c.UserAddWithOptions(ctx, "root", "", &clientv3.UserAddOptions{NoPassword: true})
	_, rootRole := c.UserGrantRole(ctx, "root", "root")
	_, first := c.UserGrantRole(ctx, "registry", "scriptorium")
	_, second := c.UserGrantRole(ctx, "registry-2", "scriptorium")
	_, enabled := c.AuthEnable(ctx)
	if err := errors.Join(role, grant, byCert, byPassword, root, rootRole, first, second, enabled); err != nil {
		t.Fatal(err)
	}
}

func (s *secured) credentials(t *testing.T, files tlsfiles.Files) credentials.TransportCredentials {
	t.Helper()
	m, err := tlsfiles.Load(files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return m.Credentials()
}

// as shows a certificate with the common name.
func (s *secured) as(t *testing.T, commonName string) etcdstore.Security {
	t.Helper()
	own := s.ca.Issue(commonName, certtest.Leaf{CommonName: commonName})
	return etcdstore.Security{Credentials: s.credentials(t, tlsfiles.Files{CA: s.ca.File, Cert: own.Cert, Key: own.Key})}
}

func (s *secured) open(t *testing.T, prefix string, security etcdstore.Security) *etcdstore.Store {
	t.Helper()
	store, err := etcdstore.Open(etcdstore.Config{Endpoints: []string{s.etcd.Endpoint()}, Prefix: prefix, Security: security})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// TestTheRoleIsEnough: a registry needs its prefix, and nothing else of etcd.
func TestTheRoleIsEnough(t *testing.T) {
	s := startSecured(t)
	security := s.as(t, "registry")
	prefixes := map[registry.Store]string{}
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) registry.Store {
			t.Helper()
			prefix := securedPrefix + rand.Text()
			store := s.open(t, prefix, security)
			etcdtest.Found(t, store)
			prefixes[store] = prefix
			return store
		},
		Reopen: func(t *testing.T, store registry.Store) registry.Store {
			t.Helper()
			store.(*etcdstore.Store).Close()
			return s.open(t, prefixes[store], security)
		},
		Compact: func(t *testing.T, _ registry.Store, upTo script.Revision) {
			t.Helper()
			if _, err := s.root.Compact(t.Context(), int64(upTo)); err != nil {
				t.Fatal(err)
			}
		},
		Spoil: func(t *testing.T, store registry.Store, key, record string, forgets bool) {
			t.Helper()
			put, err := s.root.Put(t.Context(), prefixes[store]+"/"+key, record)
			if err == nil && forgets {
				_, err = s.root.Compact(t.Context(), put.Header.Revision)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		Lose: func(t *testing.T, store registry.Store, key string) {
			t.Helper()
			if _, err := s.root.Delete(t.Context(), prefixes[store]+"/"+key); err != nil {
				t.Fatal(err)
			}
		},
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	candidate := s.open(t, securedPrefix+"a", security)
	etcdtest.Found(t, candidate)
	leadership, err := candidate.Campaign(ctx)
	if err != nil {
		t.Fatalf("Campaign: %v", err)
	}
	if err := leadership.Resign(ctx); err != nil {
		t.Errorf("Resign: %v", err)
	}
}

func TestNothingElseIsAllowed(t *testing.T) {
	s := startSecured(t)
	for _, tt := range []struct {
		name, prefix string
		security     etcdstore.Security
		want         string
	}{
		{"another prefix", "/others/", s.as(t, "registry"), "refuses us"},
		{"a prefix of the prefix", "/fleet", s.as(t, "registry"), "refuses us"},
		{"a certificate of nobody", securedPrefix, s.as(t, "stranger"), "refuses us"},
		{"no certificate", securedPrefix, etcdstore.Security{Credentials: s.credentials(t, tlsfiles.Files{CA: s.ca.File})}, "certificate required"},
		{"etcd of another CA", securedPrefix, etcdstore.Security{Credentials: s.credentials(t, tlsfiles.Files{CA: certtest.NewCA(t).File})}, "unknown authority"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := s.open(t, tt.prefix, tt.security).Fleet(t.Context())
			if script.KindOf(err) != script.Unavailable || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestPassword: it is asked for at each login, so that it can be changed.
func TestPassword(t *testing.T) {
	s := startSecured(t)
	var password atomic.Pointer[string]
	set := func(text string) { password.Store(&text) }
	set("wrong")
	security := s.as(t, "nobody")
	security.User, security.Password = "registry-2", func() (string, error) { return *password.Load(), nil }
	store := s.open(t, securedPrefix+"p", security)
	if _, err := store.Head(t.Context()); err == nil || !strings.Contains(err.Error(), "refuses us") {
		t.Fatalf("a wrong password: %v", err)
	}
	set("first")
	if _, err := store.Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.root.UserChangePassword(t.Context(), "registry-2", "second"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Head(t.Context()); err == nil {
		t.Error("the old password is still good")
	}
	set("second")
	if _, err := store.Head(t.Context()); err != nil {
		t.Errorf("after the change: %v", err)
	}
}

// TestOpenDoesNotWait for an etcd that is down, password or not.
func TestOpenDoesNotWait(t *testing.T) {
	store, err := etcdstore.Open(etcdstore.Config{
		Endpoints: []string{"http://127.0.0.1:1"},
		Security:  etcdstore.Security{User: "registry", Password: func() (string, error) { return "x", nil }},
	})
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	if _, err := etcdstore.Open(etcdstore.Config{Endpoints: []string{"http://127.0.0.1:1"}, Security: etcdstore.Security{User: "x"}}); script.KindOf(err) != script.Invalid {
		t.Errorf("a user without a password: %v", err)
	}
}
