package gate_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/gate"
	"github.com/scriptorium-dev/scriptorium/script"
)

var route = script.Name{Tenant: "acme", Script: "route"}

// toCI is a question for a webhook, and toMain one for a Prometheus.
func toCI() gate.Question {
	return gate.Question{
		Name: route, Gate: script.Gate{Kind: script.Webhook, Source: "ci"}, Version: 8, Digest: script.DigestOf([]byte("x")), Active: 7, Attempt: 41, Tries: 2, Step: 3,
	}
}

func toMain() gate.Question {
	q := toCI()
	q.Gate = script.Gate{
		Kind: script.Prometheus, Source: "main", Query: `sum(errors{script="$tenant/$script",version="$version"})`,
		Min: script.Bound{Set: true, Value: -1}, Max: script.Bound{Set: true, Value: 0.01},
	}
	return q
}

// system is a server over TLS, which somebody asks.
type system struct {
	*httptest.Server
	sources *gate.Sources
	log     *bytes.Buffer
	counts  sync.Map
}

// serve returns the sources ci and main of acme, which the handler answers for.
func serve(t *testing.T, handler http.HandlerFunc) *system {
	t.Helper()
	s := &system{Server: httptest.NewTLSServer(handler), log: &bytes.Buffer{}}
	t.Cleanup(s.Close)
	s.sources = gate.NewSources(slog.New(slog.NewTextHandler(s.log, nil)), func(source string, r fleet.GateResult) {
		n, _ := s.counts.LoadOrStore(source+" "+string(r), new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
	})
	s.sources.Replace(s.both(t, s.URL))
	return s
}

// both returns the two sources at the address.
func (s *system) both(t *testing.T, address string) []gate.Source {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	acme, err := script.ParseSelector([]string{"acme"})
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	trusted := func() (*tls.Config, error) { return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil }
	return []gate.Source{
		{Name: "ci", Kind: script.Webhook, URL: u.JoinPath("hook"), Tenants: acme, TLS: trusted, Token: func() (string, error) { return "secret", nil }},
		{Name: "main", Kind: script.Prometheus, URL: u.JoinPath("prom"), Tenants: acme, TLS: trusted},
	}
}

func (s *system) ask(t *testing.T, q gate.Question) gate.Answer {
	t.Helper()
	return s.sources.Ask(t.Context(), q)
}

func (s *system) want(t *testing.T, name string, q gate.Question, want gate.Answer) {
	t.Helper()
	if got := s.ask(t, q); got != want {
		t.Errorf("%s: %+v, want %+v", name, got, want)
	}
}

func passes(text string) gate.Answer { return gate.Answer{Result: fleet.GatePasses, Text: text} }
func waits(text string) gate.Answer  { return gate.Answer{Result: fleet.GateWaits, Text: text} }
func aborts(text string) gate.Answer { return gate.Answer{Result: fleet.GateAborts, Text: text} }
func fails(text string) gate.Answer  { return gate.Answer{Result: fleet.GateFails, Text: text} }

// TestWhatAWebhookGets: a POST with what it decides about, and the token.
func TestWhatAWebhookGets(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var got map[string]any
		if err := json.Unmarshal(body, &got); err != nil {
			t.Error(err)
		}
		want := map[string]any{
			"tenant": "acme", "script": "route", "version": 8.0, "digest": script.DigestOf([]byte("x")).String(), "activeVersion": 7.0, "step": 3.0, "attempt": 2.0,
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || r.Method != http.MethodPost || r.URL.Path != "/hook" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s %s %v: %v, want %v", r.Method, r.URL, r.Header, got, want)
		}
		fmt.Fprint(w, `{"pass": true}`)
	})
	s.want(t, "it", toCI(), passes("it says that the step passes"))
	n, ok := s.counts.Load("webhook/ci pass")
	if !ok || n.(*atomic.Int64).Load() != 1 {
		t.Error("the answer was not counted")
	}
}

func TestAnswersOfWebhooks(t *testing.T) {
	var status int
	var body string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if status >= 300 && status < 400 {
			w.Header().Set("Location", "/other")
		}
		if r.URL.Path != "/hook" {
			t.Errorf("%s was asked", r.URL)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
	neither := fails("its answer has neither pass nor abort")
	noObject := fails("its answer is not a JSON object")
	noBoolean := fails("its answer has a pass or an abort that is neither true nor false")
	for _, tt := range []struct {
		status int
		body   string
		want   gate.Answer
	}{
		{200, `{"pass": true, "reason": "42 checks"}`, passes("42 checks")},
		{200, ` {"pass":true,"abort":false,"more":[1]}` + "\n", passes("it says that the step passes")},
		{200, `{"pass": false}`, waits("it says that the step does not pass yet")},
		{200, `{"pass": false, "reason": "a build is red"}`, waits("a build is red")},
		{200, `{"pass": false, "reason": 5}`, waits("it says that the step does not pass yet")},
		{200, `{"pass": false, "reason": "\u001b[2Jred\u202e\r\n\u0000"}`, waits("[2Jred")},
		{200, `{"abort": true, "reason": "carts are lost"}`, aborts("carts are lost")},
		{200, `{"abort": true, "pass": false}`, aborts("it aborts the candidate")},
		{200, `{"abort": true, "pass": true}`, fails("it says both that the step passes and that the candidate is to be aborted")},
		{200, `{"abort": false}`, neither},
		{200, `{}`, neither},
		{200, `{"Pass": true, "ABORT": true}`, neither},
		{200, `{"pass": "true"}`, noBoolean},
		{200, `{"pass": 1}`, noBoolean},
		{200, `{"pass": true, "abort": "no"}`, noBoolean},
		{200, `{"pass": null}`, noBoolean},
		{200, `true`, noObject},
		{200, `null`, noObject},
		{200, `[{"pass": true}]`, noObject},
		{200, `{"pass": true}{"pass": true}`, noObject},
		{200, `{"pass": true`, noObject},
		{200, ``, noObject},
		{200, `{"pass": true, "reason": "` + strings.Repeat("x", 64<<10) + `"}`, fails("its answer has more than 65536 bytes")},
		{201, `{"pass": true}`, fails("it answers with status 201 Created")},
		{204, ``, fails("it answers with status 204 No Content")},
		{302, `{"pass": true}`, fails("it answers with status 302 Found: no redirect is followed")},
		{308, `{"pass": true}`, fails("it answers with status 308 Permanent Redirect: no redirect is followed")},
		{401, `{"pass": true}`, fails("it answers with status 401 Unauthorized")},
		{500, `{"abort": true}`, fails("it answers with status 500 Internal Server Error")},
		{599, ``, fails("it answers with status 599")},
	} {
		status, body = tt.status, tt.body
		s.want(t, fmt.Sprintf("%d %.80s", status, body), toCI(), tt.want)
	}
	status, body = 200, `{"pass": false, "reason": "`+strings.Repeat("é", 300)+`"}`
	if got := s.ask(t, toCI()).Text; len(got) > 240 || !strings.HasSuffix(got, "é…") {
		t.Errorf("a long reason is %d bytes: %s", len(got), got)
	}
}

func TestAnswersOfPrometheus(t *testing.T) {
	status, body := 200, ""
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		const query = `sum(errors{script="acme/route",version="8"})`
		if r.URL.Path != "/prom/api/v1/query" || r.PostFormValue("query") != query || r.Header.Get("Authorization") != "" {
			t.Errorf("%s %v, %v", r.URL, r.PostForm, r.Header)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
	vector := func(samples string) string {
		return `{"status":"success","data":{"resultType":"vector","result":[` + samples + `]}}`
	}
	value := func(v string) string { return vector(`{"metric":{"a":"b"},"value":[1700000000.1,"` + v + `"]}`) }
	is := func(v string) string { return "the value is " + v + ", want at least -1 and at most 0.01" }
	for _, tt := range []struct {
		status int
		body   string
		want   gate.Answer
	}{
		{200, value("0.004"), passes(is("0.004"))},
		{200, value("0.01"), passes(is("0.01"))},
		{200, value("0.010000000000000002"), waits(is("0.010000000000000002"))},
		{200, value("-1.5"), waits(is("-1.5"))},
		{200, value("NaN"), waits(is("NaN"))},
		{200, value("+Inf"), waits(is("+Inf"))},
		{200, value("-Inf"), waits(is("-Inf"))},
		{200, `{"status":"success","data":{"resultType":"scalar","result":[1700000000,"0"]}}`, passes(is("0"))},
		{200, `{"status":"success","infos":["maybe no counter"],"data":{"resultType":"scalar","result":[1,"0"]}}`, passes(is("0"))},
		{200, vector(""), fails("the query finds no data")},
		{200, vector(`{"value":[1,"0"]},{"value":[1,"0"]}`), fails("the query finds 2 values, want 1: aggregate them, for example with sum()")},
		{200, vector(`{"histogram":[1,{"count":"1","sum":"0"}]}`), fails("the query finds a histogram, want a number")},
		{200, value("zero"), fails("the query's value cannot be read")},
		{200, vector(`{"value":[1]}`), fails("the query's value cannot be read")},
		{200, vector(`{"value":[1,0]}`), fails("the query's value cannot be read")},
		{200, `{"status":"success","data":{"resultType":"matrix","result":[]}}`, fails("the query's value is neither a scalar nor a vector")},
		{200, `{"status":"success","data":{"resultType":"string","result":[1,"0"]}}`, fails("the query's value is neither a scalar nor a vector")},
		{200, `{"status":"success"}`, fails("the query's value is neither a scalar nor a vector")},
		{200, `{"status":"success","warnings":["a store is away"],"data":{"resultType":"scalar","result":[1,"0"]}}`, fails("the query's result has a warning: a store is away")},
		{400, `{"status":"error","errorType":"bad_data","error":"1:5: parse error: no\u001b[2J"}`, fails("the query fails: bad_data: 1:5: parse error: no [2J")},
		{422, `{"status":"error","errorType":"execution","error":"dial tcp 10.0.0.7: refused"}`, fails("the query fails: execution")},
		{503, `{"status":"error","errorType":"\u001b[2J","error":"x"}`, fails("the query fails: of an unknown reason")},
		{200, `{"status":"error","errorType":"bad_data","error":"x"}`, fails("it cannot be asked: see the log of the registry")},
		{200, "ok", fails("it cannot be asked: see the log of the registry")},
		{200, "{}", fails("it cannot be asked: see the log of the registry")},
		{404, "not found", fails("it answers with status 404 Not Found")},
		{500, value("0"), fails("it answers with status 500 Internal Server Error")},
	} {
		status, body = tt.status, tt.body
		s.want(t, fmt.Sprintf("%d %.120s", status, body), toMain(), tt.want)
	}
}

// TestSystemsThatCannotBeAsked: nothing passes, and publishers are not told where a system is. The
// log is, once.
func TestSystemsThatCannotBeAsked(t *testing.T) {
	up := true
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if !up {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, `{"pass": true}`)
	})
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	up = false
	for range 3 {
		s.want(t, "a connection that ends", toCI(), fails("it cannot be asked: see the log of the registry"))
	}
	if n := strings.Count(s.log.String(), "WARN"); n != 1 || !strings.Contains(s.log.String(), s.URL) {
		t.Errorf("the log has %d warnings: %s", n, s.log)
	}
	up = true
	s.want(t, "it answers again", toCI(), passes("it says that the step passes"))
	if !strings.Contains(s.log.String(), "can be asked again") {
		t.Errorf("the log does not say so: %s", s.log)
	}

	stranger := s.both(t, s.URL)
	for i := range stranger {
		stranger[i].TLS = func() (*tls.Config, error) { return &tls.Config{MinVersion: tls.VersionTLS12}, nil }
	}
	s.sources.Replace(stranger)
	s.want(t, "a stranger's certificate", toCI(), fails("it cannot be reached: its certificate is not trusted"))

	tokenless := s.both(t, s.URL)
	tokenless[0].Token = func() (string, error) { return "", script.Errorf(script.Invalid, "token", "cannot be read") }
	s.sources.Replace(tokenless)
	s.want(t, "no token", toCI(), fails("it cannot be asked: see the log of the registry"))

	s.sources.Replace(s.both(t, s.URL))
	s.Close()
	s.want(t, "nobody listens", toCI(), fails("it cannot be reached: connection refused"))
}

// TestASystemThatHangs is given up after ten seconds, also in the middle of its answer; and at once by
// who does not want the answer any more.
func TestASystemThatHangs(t *testing.T) {
	needs.Time(t, "waits for ten seconds")
	t.Parallel()
	ends := make(chan struct{})
	asked := make(chan struct{}, 3)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/hook" {
			fmt.Fprint(w, `{"status":`)
			w.(http.Flusher).Flush()
		}
		asked <- struct{}{}
		select {
		case <-ends:
		case <-r.Context().Done():
		}
	})
	defer close(ends)
	var asking sync.WaitGroup
	for _, q := range []gate.Question{toCI(), toMain()} {
		asking.Go(func() { s.want(t, q.Gate.String(), q, fails("it does not answer within 10s")) })
	}
	<-asked
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	asking.Go(func() {
		if got := s.sources.Ask(ctx, toCI()); got.Result != fleet.GateFails {
			t.Errorf("%+v", got)
		}
	})
	<-asked
	cancel()
	asking.Wait()
	if _, counted := s.counts.Load("webhook/ci error"); !counted {
		t.Error("the timeout was not counted")
	}
}

// TestSourcesOfTenants: one that the registry does not have, or not for the tenant, is refused at
// publish, and asks nobody.
func TestSourcesOfTenants(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
	const where = ", or have the operator of the registry add it to the file of registryd --gates"
	other := toCI()
	other.Name.Tenant = "shop"
	missing := toMain()
	missing.Gate.Source = "ci" // which is a webhook
	for _, tt := range []struct {
		q    gate.Question
		want string
	}{
		{other, "steps[0].gate: the registry has no gate webhook/ci for tenant shop: it has none for this tenant" + where},
		{missing, "steps[0].gate: the registry has no gate prometheus/ci for tenant acme: name one of webhook/ci, prometheus/main" + where},
	} {
		if err := s.sources.Check("steps[0].gate", tt.q.Name.Tenant, tt.q.Gate); err == nil || err.Error() != tt.want {
			t.Errorf("%v, want %s", err, tt.want)
		}
		if got := s.ask(t, tt.q); got.Result != fleet.GateFails || !strings.Contains(got.Text, "has no such source for tenant "+tt.q.Name.Tenant) {
			t.Errorf("%+v", got)
		}
	}
	if err := s.sources.Check("x", "acme", toCI().Gate); err != nil {
		t.Error(err)
	}
}

// TestASourceThatIsTakenAway: what it says afterwards counts for nothing.
func TestASourceThatIsTakenAway(t *testing.T) {
	var s *system
	s = serve(t, func(w http.ResponseWriter, _ *http.Request) {
		s.sources.Replace(nil)
		fmt.Fprint(w, `{"pass": true}`)
	})
	s.want(t, "it", toCI(), fails("the source was replaced while it was asked"))
	if got := s.ask(t, toCI()); got.Result != fleet.GateFails || !strings.Contains(got.Text, "has no such source") {
		t.Errorf("%+v", got)
	}
}

// TestNoProxy: the environment of the registry does not decide who answers.
func TestNoProxy(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a proxy was asked") }))
	defer proxy.Close()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "https_proxy"} {
		t.Setenv(name, proxy.URL)
	}
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"pass": true}`) })
	s.want(t, "it", toCI(), passes("it says that the step passes"))
}

// TestHostileNames: a name that no registry takes ends no literal of the query.
func TestHostileNames(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
	all := s.both(t, s.URL)
	for i := range all {
		all[i].Tenants = script.Selector{}
	}
	s.sources.Replace(all)
	q := toMain()
	q.Name.Tenant = `a"} or vector(0) or up{a="`
	if got := s.ask(t, q); got.Result != fleet.GateFails || !strings.Contains(got.Text, "which no query may have") {
		t.Errorf("%+v", got)
	}
}
