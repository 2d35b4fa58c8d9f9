package gate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Source is one system that is asked.
type Source struct {
	Name    string
	Kind    script.GateKind
	URL     *url.URL
	Tenants script.Selector
	// Token returns the bearer token, and TLS how to connect; nil without either.
	Token func() (string, error)
	TLS   func() (*tls.Config, error)
}

// String is "prometheus/main".
func (s *Source) String() string { return string(s.Kind) + "/" + s.Name }

// Bounds of a request.
const (
	timeout  = 10 * time.Second
	maxBytes = 64 << 10 // of an answer, and of its headers
)

// Sources are those that a registry has. They are safe for concurrent use.
type Sources struct {
	log      *slog.Logger
	answered func(source string, r fleet.GateResult)
	all      atomic.Pointer[[]*client]
}

// client is a Source as it is asked.
type client struct {
	Source
	http    http.Client
	failing atomic.Bool // as was said in the log last
}

// NewSources returns none. answered is called for each answer of a source, concurrently.
func NewSources(log *slog.Logger, answered func(source string, r fleet.GateResult)) *Sources {
	s := &Sources{log: log, answered: answered}
	s.all.Store(new([]*client))
	return s
}

// Replace has the registry have these sources. What those from before have yet to answer counts for
// nothing.
func (s *Sources) Replace(sources []Source) {
	list := make([]*client, len(sources))
	for i, source := range sources {
		list[i] = newClient(source)
	}
	for _, before := range *s.all.Swap(&list) {
		before.http.CloseIdleConnections()
	}
}

// newClient returns one that follows no redirect and uses no proxy: it asks the URL, and no other.
func newClient(source Source) *client {
	transport := &http.Transport{
		DialContext:        dialing((&net.Dialer{}).DialContext),
		DisableCompression: true, MaxResponseHeaderBytes: maxBytes,
		MaxConnsPerHost: perSource, MaxIdleConnsPerHost: perSource, IdleConnTimeout: time.Minute,
	}
	if source.TLS != nil {
		transport.DialTLSContext = dialing(func(ctx context.Context, network, addr string) (net.Conn, error) {
			cfg, err := source.TLS()
			if err != nil {
				return nil, err
			}
			dialer := tls.Dialer{Config: cfg}
			return dialer.DialContext(ctx, network, addr)
		})
	}
	return &client{Source: source, http: http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// dialing is dial, which ends by itself: a Transport goes on when nobody waits for the connection any
// more, and counts it. With perSource of those that never come, nobody could ask again.
func dialing(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return dial(ctx, network, addr)
	}
}

// find returns the first source with the gate's name that the tenant may use; nil if there is none.
func (s *Sources) find(tenant string, g script.Gate) *client {
	for _, c := range *s.all.Load() {
		if c.Kind == g.Kind && c.Name == g.Source && c.Tenants.Matches(tenant) {
			return c
		}
	}
	return nil
}

// Check returns an Invalid error that names the field if the tenant may use no such source.
func (s *Sources) Check(field, tenant string, g script.Gate) error {
	if s.find(tenant, g) != nil {
		return nil
	}
	var has []string
	for _, c := range *s.all.Load() {
		if c.Tenants.Matches(tenant) {
			has = append(has, c.String())
		}
	}
	hint := "it has none for this tenant"
	if len(has) > 0 {
		hint = "name one of " + strings.Join(has, ", ")
	}
	return script.Errorf(script.Invalid, field, "the registry has no gate %s for tenant %s: %s, or have the operator of the registry add it to the file of registryd --gates", g, tenant, hint)
}

// Key tells the source of the question from others; it is the same for all that are not there.
func (s *Sources) Key(q Question) any { return s.find(q.Name.Tenant, q.Gate) }

// Ask asks the source of the question once, for at most ten seconds.
func (s *Sources) Ask(ctx context.Context, q Question) Answer {
	c := s.find(q.Name.Tenant, q.Gate)
	if c == nil {
		return fails("the registry that leads has no such source for tenant " + q.Name.Tenant + ": its operator adds it to the file of registryd --gates")
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	a, err := c.ask(ctx, q)
	if err != nil {
		a = fails(reason(err))
	}
	if s.find(q.Name.Tenant, q.Gate) != c {
		a = fails("the source was replaced while it was asked")
	}
	a.Text = printable(a.Text)
	if !errors.Is(err, context.Canceled) {
		s.note(c, err)
		s.answered(c.String(), a.Result)
	}
	return a
}

// note says in the log that a source does not answer any more, or does again. The error may say
// where the source is, which is not for publishers.
func (s *Sources) note(c *client, err error) {
	switch failing := err != nil; {
	case c.failing.Swap(failing) == failing:
	case failing:
		s.log.Warn("a gate cannot be asked: rollouts wait for it", "gate", c.String(), "url", c.URL.Redacted(), "error", err)
	default:
		s.log.Info("a gate can be asked again", "gate", c.String())
	}
}

func (c *client) ask(ctx context.Context, q Question) (Answer, error) {
	switch c.Kind {
	case script.Prometheus:
		return c.query(ctx, q)
	case script.Webhook:
		return c.call(ctx, q)
	}
	return Answer{}, fmt.Errorf("there is no gate of the kind %q", c.Kind)
}

// post sends the body and returns what came back: its status and at most maxBytes.
func (c *client) post(ctx context.Context, to *url.URL, contentType, body string) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("User-Agent", "scriptorium-registry")
	if c.Token != nil {
		token, err := c.Token()
		if err != nil {
			return 0, nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxBytes+1))
	if err == nil && len(answer) > maxBytes {
		err = errTooLarge
	}
	return resp.StatusCode, answer, err
}

var errTooLarge = fmt.Errorf("its answer has more than %d bytes", maxBytes)

// reason says for publishers why a source could not be asked.
func reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("it does not answer within %v", timeout)
	}
	if errors.Is(err, errTooLarge) {
		return err.Error()
	}
	if code, ok := errors.AsType[badStatus](err); ok {
		return code.Error()
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "it cannot be reached: its certificate is not trusted"
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "it cannot be reached: its host is not found"
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return "it cannot be reached: " + number.Error()
	}
	return "it cannot be asked: see the log of the registry"
}

// badStatus is a status of HTTP that is no answer.
type badStatus int

func (b badStatus) Error() string {
	text := fmt.Sprintf("it answers with status %d", int(b))
	if name := http.StatusText(int(b)); name != "" {
		text += " " + name
	}
	if b >= 300 && b < 400 {
		text += ": no redirect is followed"
	}
	return text
}
