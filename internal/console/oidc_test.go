package console_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/console"
	stacks "github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
)

const clientSecret = "the secret of the console"

// singleSignOn is a console, a registry and a real provider.
type singleSignOn struct {
	*fixture

	ca     *certtest.CA
	issuer string
	stop   func() // the provider
}

// startProvider starts the provider, which sends browsers back to the console at the URL.
func startProvider(t *testing.T, ca *certtest.CA, at string) (issuer string, stop func()) {
	t.Helper()
	program, pair := needs.Program(t, "oidcprovider"), ca.Issue("provider", certtest.Leaf{})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, program, "-cert", pair.Cert, "-key", pair.Key, "-secret", clientSecret, "-redirect", at+"/oidc/callback")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() { cancel(); _ = cmd.Wait() }
	t.Cleanup(stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "issuer ")), stop
}

// startSSO starts all three. The registry takes tokens for the audience.
func startSSO(t *testing.T, audience string) *singleSignOn {
	t.Helper()
	s := &singleSignOn{ca: certtest.NewCA(t)}
	listen := fmt.Sprintf("127.0.0.1:%d", porttest.Port(t))
	s.issuer, s.stop = startProvider(t, s.ca, "http://"+listen)
	s.serve(t, listen, audience)
	return s
}

// serve starts the registry and the console.
func (s *singleSignOn) serve(t *testing.T, listen, audience string) {
	t.Helper()
	policy := fmt.Sprintf(`issuers:
  - {name: sso, url: %q, audiences: [%q], caFile: %q}
subjects:
  - name: people
    jwts: [{issuer: sso, subject: "*"}]
    grants: [{roles: [publish], tenants: [acme]}]
`, s.issuer, audience, s.ca.File)
	stack := startRegistry(t, withPolicy(t, policy))
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(clientSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.fixture = start(t, stack.RegistryTarget(), func(cfg *console.Config, at *console.Site) {
		cfg.Announce = nil
		at.Listen, at.URL = listen, "http://"+listen
		at.Provider = console.Provider{Issuer: s.issuer, ClientID: "console", SecretFile: secret, CA: s.ca.File, Scopes: []string{"offline_access"}}
	})
}

// withPolicy gives a registry an access policy.
func withPolicy(t *testing.T, text string) stacks.Option {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return stacks.WithRegistry(func(cfg *registryd.Config) { cfg.Security.AccessPolicy = file })
}

// strict leaves the session out where a page of another site leads a browser, as browsers do.
type strict struct{ http.RoundTripper }

func (s strict) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/oidc/callback" {
		r = r.Clone(r.Context())
		sent := r.Cookies()
		r.Header.Del("Cookie")
		for _, c := range sent {
			if strings.HasPrefix(c.Name, "scriptorium-login") {
				r.AddCookie(c)
			}
		}
	}
	return s.RoundTripper.RoundTrip(r)
}

// browser is one that knows the CA. It follows redirects.
func (s *singleSignOn) browser() *http.Client {
	s.t.Helper()
	pool, pem := x509.NewCertPool(), readFile(s.t, s.ca.File)
	pool.AppendCertsFromPEM(pem)
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return &http.Client{Jar: jar, Transport: strict{&http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}}}}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// get returns the address at the end of all redirects, and the page.
func get(t *testing.T, browser *http.Client, at string) (*url.URL, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	return do(t, browser, r)
}

func do(t *testing.T, browser *http.Client, r *http.Request) (*url.URL, string) {
	t.Helper()
	resp, err := browser.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Request.URL, string(body)
}

var requestID = regexp.MustCompile(`name="id" value="([^"]+)"`)

// login begins at the console, and signs in at the provider.
func (s *singleSignOn) login(browser *http.Client, to string) *url.URL {
	s.t.Helper()
	at, page := get(s.t, browser, s.URL()+"/oidc/start?to="+url.QueryEscape(to))
	id := requestID.FindStringSubmatch(page)
	if id == nil {
		return at // the provider was not reached
	}
	form := url.Values{"username": {"test-user@127.0.0.1"}, "password": {"verysecure"}, "id": {id[1]}}
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.issuer+"login/username", strings.NewReader(form.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	at, _ = do(s.t, browser, r)
	return at
}

// loggedIn returns a browser that is signed in. The registry may have to fetch the provider's keys first.
func (s *singleSignOn) loggedIn() *http.Client {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		browser := s.browser()
		at := s.login(browser, "/signin/?then=1")
		if at.Path == "/signin/" && at.RawQuery == "then=1" {
			return browser
		}
		_, why := get(s.t, browser, s.URL()+"/session")
		if !strings.Contains(why, "still fetching") && !strings.Contains(why, "did not have") || time.Now().After(deadline) {
			s.t.Fatalf("signed in to %s: %s\n%s", at, why, s.log)
		}
	}
}

// TestOIDC: a person signs in at a provider, and the registry takes them for who they are there, for longer than one token lasts.
func TestOIDC(t *testing.T) {
	s := startSSO(t, "console")
	browser := s.loggedIn()
	me, err := call[registryv1.CheckRequest, registryv1.CheckResponse](s.fixture, browser, "Check", &registryv1.CheckRequest{})
	if err != nil || me.GetCaller() != "people(id1)" {
		t.Fatalf("%v, %v: want people(id1)", me, err)
	}
	if _, state := get(t, browser, s.URL()+"/session"); !strings.Contains(state, `"signedIn":true`) || !strings.Contains(state, "people(id1)") {
		t.Errorf("the session says %s", state)
	}
	if strings.Contains(s.log.String(), "eyJ") {
		t.Errorf("a token is in the log:\n%s", s.log)
	}
	first := me.GetExpires().AsTime()
	s.clock.move(20 * time.Minute)
	if _, err := call[registryv1.CheckRequest, registryv1.CheckResponse](s.fixture, browser, "Check", &registryv1.CheckRequest{}); err != nil {
		t.Fatal(err)
	}
	s.clock.move(20 * time.Minute)
	if _, err := call[registryv1.CheckRequest, registryv1.CheckResponse](s.fixture, browser, "Check", &registryv1.CheckRequest{}); err != nil {
		t.Fatal(err)
	}
	s.clock.move(19*time.Minute + 30*time.Second) // half a minute is left to the token
	me, err = call[registryv1.CheckRequest, registryv1.CheckResponse](s.fixture, browser, "Check", &registryv1.CheckRequest{})
	if err != nil || me.GetExpires().AsTime().Before(first) {
		t.Fatalf("%v, %v: want another token than that until %s", me, err, first)
	}
	if got := do2(t, s.fixture, browser, http.MethodDelete, "/session"); got != http.StatusNoContent {
		t.Errorf("sign out: %d", got)
	}
	if _, err := call[registryv1.CheckRequest, registryv1.CheckResponse](s.fixture, browser, "Check", &registryv1.CheckRequest{}); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("after signing out: %v", err)
	}
}

// do2 returns the status of an answer.
func do2(t *testing.T, f *fixture, browser *http.Client, method, path string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, f.URL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := browser.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestLoginsOfOthers: nobody ends a sign-in that another browser began, or has a browser sign in as somebody else.
func TestLoginsOfOthers(t *testing.T) {
	s := startSSO(t, "console")
	s.loggedIn() // the registry has the provider's keys
	attacker := s.browser()
	attacker.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == "/oidc/callback" {
			return http.ErrUseLastResponse
		}
		return nil
	}
	s.login(attacker, "/")
	// The provider has sent the attacker's browser on, which keeps the code for its victim.
	at := lastLocation(t, s, attacker)
	for name, victim := range map[string]*http.Client{"no cookie": s.browser(), "another sign-in": func() *http.Client {
		b := s.browser()
		get(t, b, s.URL()+"/oidc/start")
		return b
	}()} {
		end, _ := get(t, victim, at)
		if _, state := get(t, victim, s.URL()+"/session"); end.Path != "/signin/" || end.RawQuery != "" || !strings.Contains(state, `"signedIn":false`) || !strings.Contains(state, "began no sign-in") {
			t.Errorf("%s: %s, %s", name, end, state)
		}
		if _, state := get(t, victim, s.URL()+"/session"); strings.Contains(state, "began no sign-in") {
			t.Errorf("%s: the message is shown twice", name)
		}
	}
	for _, query := range []string{"", "?state=", "?state=x&code=y", "?error=access_denied&error_description=%3Cscript%3E", "?state=" + strings.Repeat("x", 5000)} {
		browser := s.browser()
		get(t, browser, s.URL()+"/oidc/start")
		if end, _ := get(t, browser, s.URL()+"/oidc/callback"+query); end.Path != "/signin/" {
			t.Errorf("callback%s leads to %s", query, end)
		}
	}
	if resp, _ := s.send(s.browser(), http.MethodGet, "/oidc/start", "", "Sec-Fetch-Site", "cross-site"); resp.StatusCode != http.StatusForbidden { //nolint:bodyclose // send closes it
		t.Errorf("another site begins a sign-in: %s", resp.Status)
	}
	s.clock.move(11 * time.Minute)
	if end, _ := get(t, attacker, at); end.Path != "/signin/" {
		t.Errorf("a sign-in that began too long ago leads to %s", end)
	}
}

// lastLocation signs in at the provider, and returns where it sends the browser.
func lastLocation(t *testing.T, s *singleSignOn, browser *http.Client) string {
	t.Helper()
	_, page := get(t, browser, s.URL()+"/oidc/start")
	id := requestID.FindStringSubmatch(page)
	if id == nil {
		t.Fatalf("the provider shows no form: %s", page)
	}
	form := url.Values{"username": {"test-user@127.0.0.1"}, "password": {"verysecure"}, "id": {id[1]}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.issuer+"login/username", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := browser.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	to := resp.Header.Get("Location")
	if !strings.HasPrefix(to, s.URL()+"/oidc/callback?") {
		t.Fatalf("the provider sends the browser to %q", to)
	}
	return to
}

// TestPeopleWhomTheRegistryDoesNotKnow: the registry's policy decides, not the provider.
func TestPeopleWhomTheRegistryDoesNotKnow(t *testing.T) {
	s := startSSO(t, "another service")
	deadline := time.Now().Add(patience)
	for {
		browser := s.browser()
		end := s.login(browser, "/")
		_, state := get(t, browser, s.URL()+"/session")
		if end.Path != "/signin/" || !strings.Contains(state, `"signedIn":false`) {
			t.Fatalf("signed in to %s: %s", end, state)
		}
		if strings.Contains(state, "another service") { // it says which audience it wants
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the message does not say why: %s", state)
		}
	}
}

// TestAProviderThatIsAway: a session goes on while its token is good, and ends after.
func TestAProviderThatIsAway(t *testing.T) {
	s := startSSO(t, "console")
	browser := s.loggedIn()
	s.stop()
	for range 2 {
		s.clock.move(29*time.Minute + 40*time.Second)
		if !s.isIn(browser) {
			t.Fatal("the session ended while its token was good")
		}
	}
	s.clock.move(2 * time.Minute)
	if _, err := call[registryv1.CheckRequest, registryv1.CheckResponse](s.fixture, browser, "Check", &registryv1.CheckRequest{}); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("%v: want it to say that the provider is away", err)
	}
}

// TestOwnPages: a sign-in leads to pages of the console alone.
func TestOwnPages(t *testing.T) {
	for page, want := range map[string]string{
		"/": "/", "/script/?name=acme/greet": "/script/?name=acme/greet", "/a//b": "/a//b",
		"": "/", "//evil.example": "/", "https://evil.example": "/", "/\\evil.example": "/", "\\\\evil.example": "/", "javascript:alert(1)": "/",
		"evil.example": "/", "/\t/evil.example": "/", " //evil.example": "/", "/x\r\nSet-Cookie: a=b": "/", "///evil.example": "/", "/%": "/", "/" + strings.Repeat("x", 2000): "/",
	} {
		if got := console.OwnPage(page); got != want {
			t.Errorf("%q leads to %q, want %q", page, got, want)
		}
	}
}
