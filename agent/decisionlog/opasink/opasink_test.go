package opasink_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/deliver"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/opasink"
	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/proto/decision"
	"github.com/scriptorium-dev/scriptorium/script"
)

const patience = time.Minute

// collector is a service for decision logs: POST /logs takes an array of events, compressed by gzip.
type collector struct {
	t *testing.T
	// answer, if not nil, answers a request and reports that it did; it is called with the number of
	// the request, from 1.
	answer func(n int, w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	requests int
	uploads  [][]string // ids
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.requests++
	n := c.requests
	c.mu.Unlock()
	if c.answer != nil && c.answer(n, w, r) {
		return
	}
	if r.Method != http.MethodPost || r.URL.Path != "/service/logs" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Content-Encoding") != "gzip" {
		c.t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
	}
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		c.t.Error(err)
		return
	}
	var events []decision.Record
	if err := json.NewDecoder(z).Decode(&events); err != nil {
		c.t.Error(err)
		return
	}
	var ids []string
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uploads = append(c.uploads, ids)
}

func (c *collector) want(want string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := fmt.Sprint(c.uploads); got != want {
		c.t.Errorf("uploads %s, want %s", got, want)
	}
}

func records(ids ...string) (all [][]byte) {
	for _, id := range ids {
		all = append(all, fmt.Appendf(nil, `{"decision_id":%q,"timestamp":"2026-01-02T03:04:05Z","path":"acme/route","outcome":"OK","input":{"a":[1,2,3]}}`, id))
	}
	return all
}

// lines are what a sink logs.
type lines struct {
	bytes.Buffer

	logged func() // called at each line, if not nil
}

func (l *lines) Write(p []byte) (int, error) {
	if l.logged != nil {
		l.logged()
	}
	return l.Buffer.Write(p)
}

func newSink(t *testing.T, cfg opasink.Config) (*opasink.Sink, *lines) {
	t.Helper()
	var log lines
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	cfg.Courier.RetryMin, cfg.Courier.RetryMax = time.Millisecond, 5*time.Millisecond
	s, err := opasink.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s, &log
}

func write(t *testing.T, s *opasink.Sink, r [][]byte) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return s.Write(ctx, r)
}

func TestUploadsAreBounded(t *testing.T) {
	c := &collector{t: t}
	server := httptest.NewServer(c)
	defer server.Close()
	one := records("1")[0]
	s, _ := newSink(t, opasink.Config{URL: server.URL + "/service/", UploadBytes: 2*len(one) + 4})
	if err := write(t, s, records("1", "2", "3")); err != nil {
		t.Error(err)
	}
	c.want("[[1 2] [3]]")
	long := records(strings.Repeat("x", 2*len(one)))
	err := write(t, s, append(append(records("4"), long...), records("5")...))
	if refused, ok := errors.AsType[*decisionlog.Rejected](err); !ok || refused.Records != 1 || !strings.Contains(err.Error(), "a request may have") {
		t.Errorf("a record that is too large: %v", err)
	}
	c.want("[[1 2] [3] [4] [5]]")
	if err := write(t, s, nil); err != nil {
		t.Error(err)
	}
}

func TestWhatACollectorAnswers(t *testing.T) {
	status := func(code int, header ...string) func(int, http.ResponseWriter, *http.Request) bool {
		return func(n int, w http.ResponseWriter, _ *http.Request) bool {
			if n > 1 {
				return false
			}
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			fmt.Fprint(w, "why\n\x1b[2J")
			return true
		}
	}
	for name, tt := range map[string]struct {
		answer  func(int, http.ResponseWriter, *http.Request) bool
		refused bool
	}{
		"500":        {status(500), false},
		"503":        {status(503, "Retry-After", "0"), false},
		"429":        {status(429, "Retry-After", "soon"), false},
		"408":        {status(408), false},
		"400":        {status(400), true},
		"401":        {status(401), false},
		"404":        {status(404), false},
		"413":        {status(413), true},
		"422":        {status(422), true},
		"a redirect": {status(307, "Location", "/service/logs"), false},
		"a broken answer": {func(n int, w http.ResponseWriter, _ *http.Request) bool {
			return n == 1 && hijack(t, w, "HTTP/1.1 what\r\n\r\n")
		}, false},
		"no answer": {func(n int, w http.ResponseWriter, _ *http.Request) bool { return n == 1 && hijack(t, w, "") }, false},
		"a header too large": {func(n int, w http.ResponseWriter, _ *http.Request) bool {
			return n == 1 && hijack(t, w, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 1<<20)+"\r\n\r\n")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := &collector{t: t, answer: tt.answer}
			server := httptest.NewServer(c)
			defer server.Close()
			s, log := newSink(t, opasink.Config{URL: server.URL + "/service", UploadBytes: len(records("1")[0]) + 4})
			err := write(t, s, records("1", "2"))
			refused, isRefused := errors.AsType[*decisionlog.Rejected](err)
			switch {
			case !tt.refused:
				if err != nil {
					t.Error(err)
				}
				c.want("[[1] [2]]")
			case !isRefused || refused.Records != 1:
				t.Errorf("got %v, want one refused record", err)
			default:
				c.want("[[2]]")
			}
			if log.Len() == 0 || strings.Contains(log.String(), "\x1b") {
				t.Errorf("the log: %s", log)
			}
		})
	}
}

// TestOnlyBadRecordsAreRefused: one record that the collector does not accept, or a request that is too large for it,
// takes no other records with it. A tenant can choose what is in its records.
func TestOnlyBadRecordsAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		status, most int
		uploads      string
	}{
		"too large":      {http.StatusRequestEntityTooLarge, 2, "[[1] [2 3] [4] [6 7]]"},
		"not acceptable": {http.StatusBadRequest, 10, "[[1 2 3] [4] [6 7]]"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &collector{t: t, answer: func(_ int, w http.ResponseWriter, r *http.Request) bool {
				body := peek(t, r)
				if bytes.Count(body, []byte("decision_id")) > tt.most || bytes.Contains(body, []byte(`"5"`)) {
					w.WriteHeader(tt.status)
					return true
				}
				return false
			}}
			server := httptest.NewServer(c)
			defer server.Close()
			s, _ := newSink(t, opasink.Config{URL: server.URL + "/service"})
			err := write(t, s, records("1", "2", "3", "4", "5", "6", "7"))
			if refused, ok := errors.AsType[*decisionlog.Rejected](err); !ok || refused.Records != 1 {
				t.Errorf("got %v, want one refused record", err)
			}
			c.want(tt.uploads)
		})
	}
}

// peek returns the uncompressed body of the request, which can still be read.
func peek(t *testing.T, r *http.Request) []byte {
	t.Helper()
	packed, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(packed))
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Error(err)
		return nil
	}
	body, err := io.ReadAll(z)
	if err != nil {
		t.Error(err)
	}
	return body
}

// hijack answers with the text and closes the connection.
func hijack(t *testing.T, w http.ResponseWriter, text string) bool {
	t.Helper()
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return true
	}
	_, _ = io.WriteString(conn, text)
	conn.Close()
	return true
}

// TestACollectorThatHangs is given up at each attempt, and gets the records when it answers again.
func TestACollectorThatHangs(t *testing.T) {
	released := make(chan struct{})
	c := &collector{t: t, answer: func(n int, w http.ResponseWriter, _ *http.Request) bool {
		switch n {
		case 1: // takes the request, and says nothing
			<-released
		case 2: // answers slowly, and does not end
			w.WriteHeader(http.StatusInternalServerError)
			_ = http.NewResponseController(w).Flush()
			<-released
		default:
			return false
		}
		return true
	}}
	server := httptest.NewServer(c)
	defer server.Close()
	defer close(released)
	s, log := newSink(t, opasink.Config{URL: server.URL + "/service", Courier: deliver.Config{Timeout: 200 * time.Millisecond}})
	if err := write(t, s, records("1")); err != nil {
		t.Error(err)
	}
	c.want("[[1]]")
	if text := log.String(); strings.Count(text, "does not take records") != 1 || !strings.Contains(text, "takes records again") {
		t.Errorf("the log: %s", text)
	}
}

// TestACollectorThatIsGone: a write ends with its context, and the next one gets through when the
// collector is back.
func TestACollectorThatIsGone(t *testing.T) {
	address := porttest.Address(t)
	s, log := newSink(t, opasink.Config{URL: "http://" + address + "/service"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log.logged = cancel // the sink logs that an attempt has failed
	if err := s.Write(ctx, records("1")); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody listens: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- write(t, s, records("2")) }()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{t: t}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: c}}
	server.Start()
	defer server.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	c.want("[[2]]")
}

func TestHowACollectorKnowsAndIsKnown(t *testing.T) {
	ca := certtest.NewCA(t)
	own, client := ca.Issue("collector", certtest.Leaf{CommonName: "collector"}), ca.Issue("agent", certtest.Leaf{CommonName: "agent"})
	quiet := slog.New(slog.DiscardHandler)
	load := func(files tlsfiles.Files) *tlsfiles.Material {
		t.Helper()
		m, err := tlsfiles.Load(files, quiet)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	serverTLS, err := load(tlsfiles.Files{CA: ca.File, Cert: own.Cert, Key: own.Key}).Server()
	if err != nil {
		t.Fatal(err)
	}
	var tokens []string
	c := &collector{t: t, answer: func(_ int, _ http.ResponseWriter, r *http.Request) bool {
		tokens = append(tokens, r.Header.Get("Authorization")+" of "+r.TLS.PeerCertificates[0].Subject.CommonName)
		return false
	}}
	server := httptest.NewUnstartedServer(c)
	server.TLS = serverTLS
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	defer server.Close()
	token := "first"
	s, _ := newSink(t, opasink.Config{
		URL: strings.Replace(server.URL, "127.0.0.1", "localhost", 1) + "/service",
		TLS: func() (*tls.Config, error) {
			return load(tlsfiles.Files{CA: ca.File, Cert: client.Cert, Key: client.Key}).Client()
		},
		Token: func() (string, error) { return token, nil },
	})
	if err := write(t, s, records("1")); err != nil {
		t.Fatal(err)
	}
	token = "second"
	if err := write(t, s, records("2")); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(tokens); got != "[Bearer first of agent Bearer second of agent]" {
		t.Errorf("the collector has seen %s", got)
	}
	for name, config := range map[string]func() (*tls.Config, error){
		"another CA": func() (*tls.Config, error) {
			return load(tlsfiles.Files{CA: certtest.NewCA(t).File, Cert: client.Cert, Key: client.Key}).Client()
		},
		"no certificate":         func() (*tls.Config, error) { return load(tlsfiles.Files{CA: ca.File}).Client() },
		"files that are broken":  func() (*tls.Config, error) { return nil, errors.New("broken") },
		"the system's CAs alone": nil,
	} {
		s, _ := newSink(t, opasink.Config{URL: server.URL + "/service", TLS: config})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := s.Write(ctx, records("3")); err == nil {
			t.Errorf("%s: the record was sent", name)
		}
		cancel()
	}
	c.want("[[1] [2]]")
}

func TestURLs(t *testing.T) {
	for _, url := range []string{"", "collector", "ftp://collector/", "https://user:secret@collector", "https://collector/?a=b", "https://collector/#x", "https:///logs", "http://a b"} {
		_, err := opasink.New(opasink.Config{URL: url})
		if script.KindOf(err) != script.Invalid || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
