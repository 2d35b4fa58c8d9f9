package tlsfiles_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/obs/obstest"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/script"
)

// recorder is a log that can be read.
type recorder struct{ obstest.Output }

func (r *recorder) count(s string) int {
	return strings.Count(r.String(), s)
}

func (r *recorder) log() *slog.Logger { return slog.New(slog.NewTextHandler(r, nil)) }

func load(t *testing.T, files tlsfiles.Files, log *slog.Logger) *tlsfiles.Material {
	t.Helper()
	m, err := tlsfiles.Load(files, log)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// handshake connects client and server, and returns what each saw of the other.
func handshake(t *testing.T, client, server credentials.TransportCredentials, name string) (ofServer, ofClient tls.ConnectionState, err error) {
	t.Helper()
	a, b := pipe(t)
	defer a.Close()
	defer b.Close()
	type result struct {
		info credentials.AuthInfo
		err  error
	}
	served := make(chan result, 1)
	go func() {
		conn, info, err := server.ServerHandshake(b)
		if err == nil {
			_, err = conn.Write([]byte("x")) // what the server thinks of a certificate comes after the client's handshake
		} else {
			b.Close()
		}
		served <- result{info, err}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, info, err := client.ClientHandshake(ctx, name, a)
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
	} else {
		a.Close()
	}
	got := <-served
	if err == nil {
		err = got.err
	}
	if err != nil {
		return ofServer, ofClient, err
	}
	return info.(credentials.TLSInfo).State, got.info.(credentials.TLSInfo).State, nil
}

// pipe returns the ends of a connection over loopback.
func pipe(t *testing.T) (client, server net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if client, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	return client, server
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestWhoIsBelieved(t *testing.T) {
	ca, stranger := certtest.NewCA(t), certtest.NewCA(t)
	own := ca.Issue("server", certtest.Leaf{CommonName: "server", DNS: []string{"registry.test"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}})
	good := ca.Issue("client", certtest.Leaf{CommonName: "client"})
	late := ca.Issue("late", certtest.Leaf{CommonName: "late", NotAfter: time.Now().Add(-time.Minute)})
	bad := stranger.Issue("client", certtest.Leaf{CommonName: "client"})
	server := tlsfiles.Files{CA: ca.File, Cert: own.Cert, Key: own.Key}
	for _, tt := range []struct {
		name           string
		client, server tlsfiles.Files
		to             string
		want           string // in the error; "" for none
		client1        string // who the server saw
	}{
		{"both ends", tlsfiles.Files{CA: ca.File, Cert: good.Cert, Key: good.Key}, server, "registry.test:7070", "", "client"},
		{"by address", tlsfiles.Files{CA: ca.File}, server, "127.0.0.1:7070", "", ""},
		{"without a client certificate", tlsfiles.Files{CA: ca.File}, server, "registry.test", "", ""},
		{"another name", tlsfiles.Files{CA: ca.File}, server, "other.test", "not other.test", ""},
		{"another address", tlsfiles.Files{CA: ca.File}, server, "127.0.0.2:7070", "127.0.0.2", ""},
		{"another CA", tlsfiles.Files{CA: stranger.File}, server, "registry.test", "unknown authority", ""},
		{"the system's CAs", tlsfiles.Files{}, server, "registry.test", "unknown authority", ""},
		{"client of another CA", tlsfiles.Files{CA: ca.File, Cert: bad.Cert, Key: bad.Key}, server, "registry.test", "tls: ", ""},
		{"expired client", tlsfiles.Files{CA: ca.File, Cert: late.Cert, Key: late.Key}, server, "registry.test", "expired", ""},
		{"expired server", tlsfiles.Files{CA: ca.File}, tlsfiles.Files{Cert: late.Cert, Key: late.Key}, "localhost", "expired", ""},
		{"no certificate is asked for", tlsfiles.Files{CA: ca.File, Cert: bad.Cert, Key: bad.Key}, tlsfiles.Files{Cert: own.Cert, Key: own.Key}, "registry.test", "", ""},
		{"no server's certificate", tlsfiles.Files{CA: ca.File}, tlsfiles.Files{CA: ca.File}, "registry.test", "", "x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ofServer, ofClient, err := handshake(t, load(t, tt.client, quiet()).Credentials(), load(t, tt.server, quiet()).Credentials(), tt.to)
			switch {
			case tt.client1 == "x":
				if err == nil {
					t.Error("a server without a certificate was believed")
				}
			case tt.want != "":
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %q", err, tt.want)
				}
			case err != nil:
				t.Error(err)
			case ofServer.Version != tls.VersionTLS13 || ofServer.NegotiatedProtocol != "h2":
				t.Errorf("%x %s", ofServer.Version, ofServer.NegotiatedProtocol)
			case tt.client1 == "" && len(ofClient.VerifiedChains) > 0, tt.client1 != "" && ofClient.VerifiedChains[0][0].Subject.CommonName != tt.client1:
				t.Errorf("the server saw %v", ofClient.VerifiedChains)
			}
		})
	}
}

func TestOldVersionsOfTLSAreRefused(t *testing.T) {
	ca := certtest.NewCA(t)
	own := ca.Issue("server", certtest.Leaf{})
	m := load(t, tlsfiles.Files{CA: ca.File, Cert: own.Cert, Key: own.Key}, quiet())
	old, err := m.Client()
	if err != nil {
		t.Fatal(err)
	}
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if _, _, err := handshake(t, credentials.NewTLS(old), m.Credentials(), "localhost"); err == nil {
		t.Error("a client with TLS 1.2 was served")
	}
}

// replace puts the content of one pair into the files of another, as a renewal does.
func replace(t *testing.T, to, from string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFilesAreReadAgain(t *testing.T) {
	ca, next := certtest.NewCA(t), certtest.NewCA(t)
	own := ca.Issue("server", certtest.Leaf{CommonName: "first"})
	renewed := ca.Issue("renewed", certtest.Leaf{CommonName: "renewed"})
	moved := next.Issue("moved", certtest.Leaf{CommonName: "moved"})
	trusted := filepath.Join(t.TempDir(), "ca.crt")
	replace(t, trusted, ca.File)
	synctest.Test(t, func(t *testing.T) {
		var record recorder
		server := load(t, tlsfiles.Files{Cert: own.Cert, Key: own.Key}, record.log())
		client := load(t, tlsfiles.Files{CA: trusted}, record.log())
		sees := func(want string) {
			t.Helper()
			<-time.After(2 * time.Second)
			state, _, err := handshake(t, client.Credentials(), server.Credentials(), "localhost")
			got := ""
			if err == nil {
				got = state.PeerCertificates[0].Subject.CommonName
			}
			if got != want {
				t.Errorf("sees %q (%v), want %q", got, err, want)
			}
		}
		sees("first")
		replace(t, own.Cert, renewed.Cert) // and not yet the key
		sees("first")
		sees("first")
		if n := record.count("was replaced by"); n != 1 {
			t.Errorf("what cannot be used was logged %d times, want once", n)
		}
		replace(t, own.Key, renewed.Key)
		sees("renewed")
		if err := os.Remove(own.Cert); err != nil {
			t.Fatal(err)
		}
		sees("renewed")
		replace(t, own.Cert, moved.Cert)
		replace(t, own.Key, moved.Key)
		sees("") // the client does not know the CA yet
		replace(t, trusted, next.File)
		sees("moved")
		replace(t, trusted, own.Key)
		sees("moved")
	})
}

func TestLoadNamesTheFile(t *testing.T) {
	ca := certtest.NewCA(t)
	a, b := ca.Issue("a", certtest.Leaf{}), ca.Issue("b", certtest.Leaf{})
	cut := filepath.Join(t.TempDir(), "cut.crt")
	if err := os.WriteFile(cut, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		files tlsfiles.Files
		want  string
	}{
		{tlsfiles.Files{Cert: a.Cert}, a.Cert},
		{tlsfiles.Files{CA: "none.crt"}, "none.crt: cannot be read"},
		{tlsfiles.Files{CA: a.Key}, "a.key: holds no certificate"},
		{tlsfiles.Files{CA: cut}, "cut.crt: holds a certificate that cannot be read"},
		{tlsfiles.Files{Cert: a.Cert, Key: b.Key}, "b.key cannot be used together"},
		{tlsfiles.Files{Cert: "none.crt", Key: a.Key}, "none.crt: cannot be read"},
	} {
		_, err := tlsfiles.Load(tt.files, quiet())
		if script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.files, err, tt.want)
		}
	}
	var record recorder
	late := ca.Issue("late", certtest.Leaf{NotAfter: time.Now().Add(-time.Minute)})
	load(t, tlsfiles.Files{Cert: late.Cert, Key: late.Key}, record.log())
	if record.count("is not valid now") != 1 {
		t.Error("nothing was said of an expired certificate")
	}
}

func TestSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []string{"", "\n", "one\ntwo\n", "a\x00b"} {
		write(bad)
		if _, err := tlsfiles.Secret(path, tlsfiles.RefuseOpen, quiet()); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), path) || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	write(" first \n")
	synctest.Test(t, func(t *testing.T) {
		secret, err := tlsfiles.Secret(path, tlsfiles.RefuseOpen, quiet())
		if err != nil {
			t.Fatal(err)
		}
		is := func(want string) {
			t.Helper()
			<-time.After(2 * time.Second)
			if got, err := secret(); got != want || err != nil {
				t.Errorf("%q, %v, want %q", got, err, want)
			}
		}
		is(" first")
		write("second")
		is("second")
		write("")
		is("second")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		is("second")
	})
}

func TestWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var changes atomic.Int32
		done := make(chan struct{})
		w := tlsfiles.NewWatch(path)
		go func() {
			defer close(done)
			w.Run(ctx, time.Second, func() { changes.Add(1) })
		}()
		for i, change := range []func() error{
			func() error { return nil },
			func() error { return os.WriteFile(path, []byte("a"), 0o600) },
			func() error { return os.WriteFile(path, []byte("b"), 0o600) },
			func() error { return os.WriteFile(path, []byte("b"), 0o600) },
			func() error { return os.Remove(path) },
		} {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			<-time.After(3 * time.Second)
			synctest.Wait()
			if want := []int32{0, 1, 2, 2, 3}[i]; changes.Load() != want {
				t.Errorf("after step %d: %d changes, want %d", i, changes.Load(), want)
			}
		}
		cancel()
		<-done
	})
}
