// Package opasink sends decisions to collectors of OPA decision logs: a POST of a JSON array, compressed with gzip, to
// URL/logs.
package opasink

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/deliver"
	"github.com/scriptorium-dev/scriptorium/script"
)

// DefaultUploadBytes is the default of Config.UploadBytes.
const DefaultUploadBytes = 512 << 10

// Config of a Sink.
type Config struct {
	// URL of the service. Records go to URL/logs.
	URL string
	// UploadBytes bounds the uncompressed JSON of a request; 0 means DefaultUploadBytes. Larger records are rejected.
	UploadBytes int
	// TLS returns the configuration of the next connection to an https URL; nil means the system's certificates.
	TLS func() (*tls.Config, error)
	// Token returns the bearer token of the next request; nil means no token.
	Token func() (string, error)
	// Courier configures retries. New sets its Collector and Log.
	Courier deliver.Config

	Log *slog.Logger // nil means slog.Default()
}

// Sink is a decisionlog.Sink.
type Sink struct {
	cfg     Config
	url     string
	http    http.Client
	courier *deliver.Courier
}

var _ decisionlog.Sink = (*Sink)(nil)

// New returns a sink. It connects at the first Write.
func New(cfg Config) (*Sink, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, script.Errorf(script.Invalid, "url", "is no address of a collector: want https://HOST[:PORT][/PATH], without user, query and fragment")
	}
	switch {
	case cfg.UploadBytes < 0:
		return nil, script.Errorf(script.Invalid, "upload-bytes", "%d is below 0", cfg.UploadBytes)
	case cfg.UploadBytes == 0:
		cfg.UploadBytes = DefaultUploadBytes
	}
	cfg.Courier.Collector, cfg.Courier.Log = u.String(), cfg.Log
	return &Sink{
		cfg: cfg, url: u.JoinPath("logs").String(), courier: deliver.New(cfg.Courier),
		http: http.Client{Transport: transport(cfg.TLS), CheckRedirect: follow},
	}, nil
}

// follow follows no redirect: the token is only for the configured URL.
func follow(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Bounds of a connection.
const (
	dialTimeout    = 10 * time.Second
	idleTimeout    = time.Minute
	maxHeaderBytes = 64 << 10
)

func transport(config func() (*tls.Config, error)) *http.Transport {
	dialer := net.Dialer{Timeout: dialTimeout}
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTimeout,
		MaxIdleConnsPerHost: 1, MaxConnsPerHost: 2, IdleConnTimeout: idleTimeout, MaxResponseHeaderBytes: maxHeaderBytes,
	}
	if config != nil {
		t.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			cfg, err := config()
			if err != nil {
				return nil, err
			}
			return (&tls.Dialer{NetDialer: &dialer, Config: cfg}).DialContext(ctx, network, addr)
		}
	}
	return t
}

// Write implements decisionlog.Sink. It sends the records in chunks.
func (s *Sink) Write(ctx context.Context, records [][]byte) error {
	for len(records) > 0 {
		n := s.fit(records)
		if n == 0 {
			s.courier.Reject(1, fmt.Errorf("a record has %d bytes, and a request may have %d", len(records[0]), s.cfg.UploadBytes))
			records = records[1:]
			continue
		}
		if err := deliver.Send(ctx, s.courier, records[:n], s.post); err != nil {
			return err
		}
		records = records[n:]
	}
	return s.courier.Rejected()
}

// fit returns how many of the records go into one request.
func (s *Sink) fit(records [][]byte) int {
	size := len("[]")
	for i, r := range records {
		if size += len(r) + len(","); size > s.cfg.UploadBytes {
			return i
		}
	}
	return len(records)
}

// pack returns the body of a request. It does not reuse memory: the HTTP client can read a body after the request has
// failed.
func pack(records [][]byte) ([]byte, error) {
	var body bytes.Buffer
	z := gzip.NewWriter(&body)
	for i, r := range records {
		before := ","
		if i == 0 {
			before = "["
		}
		_, _ = io.WriteString(z, before) // a bytes.Buffer returns no errors
		_, _ = z.Write(r)
	}
	_, _ = io.WriteString(z, "]")
	err := z.Close()
	return body.Bytes(), err
}

// post sends the records in one request.
func (s *Sink) post(ctx context.Context, records [][]byte) error {
	body, err := pack(records)
	if err != nil {
		return deliver.Permanent(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return deliver.Permanent(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Content-Encoding", "gzip")
	if s.cfg.Token != nil {
		token, err := s.cfg.Token()
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	const most = 64 << 10 // of a response; after a longer one, the connection is not reused
	text, _ := io.ReadAll(io.LimitReader(resp.Body, most))
	_ = resp.Body.Close() // the body was read
	return checkResponse(resp, text)
}

// checkResponse returns the error of a response for the Courier; nil if the collector has accepted the records.
func checkResponse(resp *http.Response, text []byte) error {
	if resp.StatusCode/100 == 2 {
		return nil
	}
	err := errors.New(resp.Status + excerpt(text))
	if deliver.Refuses(resp.StatusCode) {
		return deliver.Permanent(err)
	}
	if pause, ok := retryAfter(resp.Header); ok {
		return deliver.After(pause, err)
	}
	return err
}

// retryAfter returns the pause that the collector requested.
func retryAfter(header http.Header) (time.Duration, bool) {
	const most = 1 << 20 // seconds; deliver.After has a lower bound
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	return time.Duration(min(seconds, most)) * time.Second, err == nil && seconds >= 0
}

// excerpt returns the start of a response as printable text.
func excerpt(text []byte) string {
	const most = 200
	line := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(text[:min(len(text), most)]), ""))
	if line = strings.TrimSpace(line); line == "" {
		return ""
	}
	return ": " + line
}

// Close closes the connections.
func (s *Sink) Close(context.Context) error {
	s.http.CloseIdleConnections()
	return nil
}
