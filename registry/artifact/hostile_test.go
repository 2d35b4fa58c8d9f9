package artifact_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry/artifact"
	"github.com/scriptorium-dev/scriptorium/script"
)

// fake is a registry of one artifact that does not do as it should.
type fake struct {
	*httptest.Server
	manifest []byte
	blob     func(w http.ResponseWriter, r *http.Request)
	asked    atomic.Int64 // for the manifest
}

func digest(text []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(text)) }

// serve starts a fake whose manifest names the layer with that digest and size.
func serve(t *testing.T, layer string, size int) *fake {
	t.Helper()
	const manifest = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.wasm.config.v0+json","digest":%q,"size":2},"layers":[{"mediaType":"application/wasm","digest":%q,"size":%d}]}`
	f := &fake{manifest: fmt.Appendf(nil, manifest, digest([]byte("{}")), layer, size)}
	f.blob = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(module) }
	mux := http.NewServeMux()
	mux.HandleFunc("/v2/acme/route/manifests/", func(w http.ResponseWriter, _ *http.Request) {
		f.asked.Add(1)
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		_, _ = w.Write(f.manifest)
	})
	mux.HandleFunc("/v2/acme/route/blobs/", func(w http.ResponseWriter, r *http.Request) { f.blob(w, r) })
	f.Server = httptest.NewTLSServer(mux)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) host() string { return strings.TrimPrefix(f.URL, "https://") }

func (f *fake) reference() string {
	return "oci://" + f.host() + "/acme/route@" + digest(f.manifest)
}

func (f *fake) tls() *tls.Config {
	return f.Client().Transport.(*http.Transport).TLSClientConfig
}

func (f *fake) fetch(t *testing.T, others ...string) ([]byte, error) {
	t.Helper()
	return fetcher(t, artifact.Config{Registries: append(others, f.host()), TLS: f.tls()}).Fetch(t.Context(), f.reference(), "wasm")
}

// TestAnswersOfARegistry that lies, or breaks.
func TestAnswersOfARegistry(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "secret words", code) }
	}
	for name, c := range map[string]struct {
		blob  http.HandlerFunc
		kind  script.Kind
		words string
	}{
		"other bytes": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("\x00asm\x02\x00\x00\x00")) }, script.Invalid, "other bytes than the digest names"},
		"more": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(module)
			_ = http.NewResponseController(w).Flush()
			_, _ = w.Write(module)
		}, script.Invalid, "other bytes than the digest names"},
		"another size": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(module[:6]) }, script.Invalid, "size, digest or type"},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(module)))
			_, _ = w.Write(module[:6])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, script.Unavailable, "try again"},
		"503": {status(503), script.Unavailable, "503 Service Unavailable: try again"},
		"429": {status(429), script.Unavailable, "try again"},
		"401": {status(401), script.Invalid, "--artifact-registry-credentials"},
		"403": {status(403), script.Invalid, "--artifact-registry-credentials"},
		"404": {status(404), script.Invalid, "no such artifact"},
		"418": {status(418), script.Invalid, "418"},
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, digest(module), len(module))
			f.blob = c.blob
			_, err := f.fetch(t)
			refused(t, err, c.kind, c.words)
			if err != nil && strings.Contains(err.Error(), "secret words") {
				t.Errorf("%v: has the words of another system", err)
			}
		})
	}
}

// TestManifests that a registry should not serve.
func TestManifests(t *testing.T) {
	for name, c := range map[string]struct {
		layer string
		size  int
		words string
	}{
		"path":     {"sha256:../../../acme/other/blobs/x", len(module), "no digest"},
		"negative": {digest(module), -1, "at least 1"},
		"huge":     {digest(module), 1 << 40, "4 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := serve(t, c.layer, c.size).fetch(t)
			refused(t, err, script.Invalid, c.words)
		})
	}
	t.Run("large", func(t *testing.T) {
		f := serve(t, digest(module), len(module))
		f.manifest = append(f.manifest, bytes.Repeat([]byte(" "), 1<<20)...)
		_, err := f.fetch(t)
		refused(t, err, script.Invalid, "")
	})
	t.Run("other", func(t *testing.T) {
		f := serve(t, digest(module), len(module))
		reference := f.reference()
		f.manifest = append(f.manifest, ' ')
		_, err := fetcher(t, artifact.Config{Registries: []string{f.host()}, TLS: f.tls()}).Fetch(t.Context(), reference, "wasm")
		refused(t, err, script.Invalid, "digest")
	})
}

// TestRedirects go to the store of a registry's blobs, and to nothing else, and take no password along.
func TestRedirects(t *testing.T) {
	var authorization atomic.Value
	served := func(w http.ResponseWriter, r *http.Request) {
		authorization.Store(r.Header.Get("Authorization"))
		_, _ = w.Write(module)
	}
	store, open := httptest.NewTLSServer(http.HandlerFunc(served)), httptest.NewServer(http.HandlerFunc(served))
	t.Cleanup(store.Close)
	t.Cleanup(open.Close)
	f := serve(t, digest(module), len(module))
	to := ""
	f.blob = func(w http.ResponseWriter, r *http.Request) {
		if _, _, ok := r.BasicAuth(); !ok {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, to, http.StatusTemporaryRedirect)
	}
	fetch := func(registries ...string) error {
		config := fmt.Sprintf(`{"auths": {%q: {"username": "u", "password": "p"}}}`, f.host())
		cfg := artifact.Config{Registries: append(registries, f.host()), TLS: f.tls(), Credentials: func() ([]byte, error) { return []byte(config), nil }}
		_, err := fetcher(t, cfg).Fetch(t.Context(), f.reference(), "wasm")
		return err
	}
	to = store.URL + "/blob?signature=secret"
	refused(t, fetch(), script.Invalid, "private network")
	to = open.URL + "/blob"
	refused(t, fetch(), script.Invalid, "without TLS")
	to = "http://169.254.169.254/latest/meta-data"
	refused(t, fetch(), script.Invalid, "without TLS")
	to = "https://169.254.169.254/latest/meta-data"
	refused(t, fetch("169.254.169.254"), script.Invalid, "169.254.169.254")
	to = strings.Replace(store.URL, "https://", "https://u:p@", 1)
	refused(t, fetch(strings.TrimPrefix(store.URL, "https://")), script.Invalid, "password")
	to = f.URL + "/v2/acme/route/blobs/again"
	refused(t, fetch(), script.Invalid, "redirects")
	if got := authorization.Load(); got != nil {
		t.Fatalf("a server that nobody named was asked, with authorization %q", got)
	}
	to = store.URL + "/blob"
	if err := fetch(strings.TrimPrefix(store.URL, "https://")); err != nil {
		t.Errorf("%v; want what the store has, which the operator has named", err)
	}
	if got := authorization.Load(); got != "" {
		t.Errorf("the store got authorization %q of the registry", got)
	}
}

// TestAllowed registries are asked, and no others.
func TestAllowed(t *testing.T) {
	const rest = "/acme/route@sha256:abababababababababababababababababababababababababababababababab"
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		allowed, host string
		ok            bool
	}{
		{"ghcr.invalid", "ghcr.invalid", true},
		{"ghcr.invalid", "GHCR.invalid:443", true},
		{"ghcr.invalid", "ghcr.invalid:5000", false},
		{"ghcr.invalid:5000", "ghcr.invalid:5000", true},
		{"ghcr.invalid:5000", "ghcr.invalid", false},
		{"*.invalid", "a.b.invalid", true},
		{"*.invalid", "invalid", false},
		{"*.ghcr.invalid", "evilghcr.invalid", false},
		{"ghcr.invalid", "a.ghcr.invalid", false},
		{"ghcr.invalid", "ghcr.invalid.evil", false},
	} {
		_, err := fetcher(t, artifact.Config{Registries: []string{c.allowed}}).Fetch(ended, "oci://"+c.host+rest, "wasm")
		if c.ok {
			refused(t, err, script.Unavailable, "")
		} else {
			refused(t, err, script.Invalid, "--artifact-registries")
		}
	}
	for _, wrong := range []string{"", "https://ghcr.io", "ghcr.io/acme", "*", "a.*", "*.*", "a b", "u@ghcr.io"} {
		if _, err := artifact.New(artifact.Config{Registries: []string{wrong}}); script.KindOf(err) != script.Invalid {
			t.Errorf("%q: %v; want Invalid", wrong, err)
		}
	}
}

// TestAddresses that a host may have, whether or not the operator has named it.
func TestAddresses(t *testing.T) {
	for address, want := range map[string][2]bool{ // of a host that was named, and of another
		"140.82.121.34:443":            {true, true},
		"[2606:50c0:8000::153]:443":    {true, true},
		"127.0.0.1:443":                {true, false},
		"[::1]:443":                    {true, false},
		"[::ffff:127.0.0.1]:443":       {true, false},
		"10.1.2.3:443":                 {true, false},
		"100.64.1.1:443":               {true, false},
		"[fd00::1]:443":                {true, false},
		"[64:ff9b::7f00:1]:443":        {true, false},
		"0.0.0.0:443":                  {false, false},
		"169.254.169.254:80":           {false, false},
		"[fe80::1%eth0]:443":           {false, false},
		"[64:ff9b::a9fe:a9fe]:443":     {false, false},
		"[2002:a9fe:a9fe::1]:443":      {false, false},
		"224.0.0.1:443":                {false, false},
		"no address":                   {false, false},
		"255.255.255.255:443":          {true, false},
		"[::ffff:169.254.169.254]:443": {false, false},
	} {
		for i, named := range []bool{true, false} {
			if got := artifact.CheckAddress("host", address, named) == nil; got != want[i] {
				t.Errorf("%s, named %t: allowed %t; want %t", address, named, got, want[i])
			}
		}
	}
}

// TestOneFetch is for all who ask at the same time, and for those who ask soon after.
func TestOneFetch(t *testing.T) {
	f := serve(t, digest(module), len(module))
	entered, proceed := make(chan struct{}, 9), make(chan struct{})
	f.blob = func(w http.ResponseWriter, _ *http.Request) {
		entered <- struct{}{}
		<-proceed
		_, _ = w.Write(module)
	}
	of := fetcher(t, artifact.Config{Registries: []string{f.host()}, TLS: f.tls()})
	ctx, leave := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { _, err := of.Fetch(ctx, f.reference(), "wasm"); first <- err }()
	<-entered
	leave()
	refused(t, <-first, script.Unavailable, "")
	second := make(chan error, 1)
	go func() { _, err := of.Fetch(t.Context(), f.reference(), "wasm"); second <- err }()
	close(proceed)
	if err := <-second; err != nil {
		t.Fatalf("%v: the fetch ended with the first who asked", err)
	}
	if _, err := of.Fetch(t.Context(), f.reference(), "wasm"); err != nil {
		t.Fatal(err)
	}
	if n := f.asked.Load(); n != 1 {
		t.Errorf("the registry was asked %d times; want once", n)
	}
}
