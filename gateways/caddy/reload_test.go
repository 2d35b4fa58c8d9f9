package scriptorium_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/scriptorium-dev/scriptorium/internal/local/localtest"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

// newAdministered is a site whose Caddy has its API on a socket.
func newAdministered(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	s.admin = "unix/" + filepath.Join(s.world.Dir, "admin.sock")
	return s
}

// post has Caddy's API load the configuration, as `caddy reload` does.
func (s *site) post(agent, route string) error {
	s.t.Helper()
	config, err := s.adapt(agent, route)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(s.admin, "unix/"))
	}}}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://caddy/load", bytes.NewReader(config))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return err
}

func (s *site) mustPost(agent, route string) {
	s.t.Helper()
	if err := s.post(agent, route); err != nil {
		s.t.Fatal(err)
	}
}

// traffic sends requests until stop is called, which returns how many were answered. No answer may be a
// failure. Half of the clients open a connection for each request. They ask again if a connection ends
// without an answer: net/http reads no request after Caddy has begun to shut a server down, so that
// reloads of any configuration of Caddy end such connections.
func (s *site) traffic() (stop func() int) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var clients sync.WaitGroup
	asked := make([]int, 4)
	for i := range asked {
		transport := &http.Transport{DisableKeepAlives: i%2 == 0}
		clients.Go(func() {
			defer transport.CloseIdleConnections()
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodGet, "http://"+s.address+"/headers", http.NoBody)
				if err != nil {
					s.t.Error(err)
					return
				}
				resp, err := transport.RoundTrip(req)
				if err != nil {
					continue
				}
				text, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(text), "for ann+bob") {
					s.t.Errorf("a request is answered %d %q %q, %v", resp.StatusCode, resp.Header["Scriptorium-Reason"], text, err)
					return
				}
				asked[i]++
			}
		})
	}
	return func() (all int) {
		cancel()
		clients.Wait()
		for _, n := range asked {
			all += n
		}
		return all
	}
}

// TestReloadsUnderLoad: no request fails, whatever a reload changes about agents. Nothing stays of an
// agent that no configuration has.
func TestReloadsUnderLoad(t *testing.T) {
	s := newAdministered(t)
	s.reloads(1) // what Caddy starts once for all configurations stays
	before := localtest.Hold()
	s.reloads(6)
	localtest.Settle(t, before)
}

// reloads starts Caddy, has it reload under load, and stops it.
func (s *site) reloads(times int) {
	s.t.Helper()
	folder := func(i int) string {
		return s.agentIn(fmt.Sprintf("caddy-%d", i), filepath.Join(s.world.Dir, fmt.Sprintf("caddy-%d", i)))
	}
	s.mustLoad(folder(0), s.proxy(""))
	s.world.Publish(s.t, localtest.Manifest("gate", features), 2)
	stop := s.traffic()
	for i := range times {
		s.mustPost(folder(i%3), s.proxy(fmt.Sprintf("param n %d", i)))       // other agents after the first
		s.mustPost(folder(i%3), s.proxy(fmt.Sprintf("param n %d", i+times))) // the same agent
		s.mustPost("", s.proxy(folder(i%3)))                                 // the same in the directive
		if err := s.post(folder(i%3)+"max_running 1\n", s.proxy("")); err == nil || !strings.Contains(err.Error(), "restart Caddy") {
			s.t.Errorf("other settings in the same folder: %v", err)
		}
	}
	if asked := stop(); asked == 0 {
		s.t.Error("no request came")
	}
	if err := caddy.Stop(); err != nil {
		s.t.Error(err)
	}
	s.app.CloseClientConnections()
}

// TestRequestsOfTheServerBefore: a reload that takes an agent away fails no request that came before it.
func TestRequestsOfTheServerBefore(t *testing.T) {
	s := newAdministered(t)
	other := s.agentIn("other", filepath.Join(s.world.Dir, "other"))
	s.mustLoad(s.agent(), s.proxy("body 8"))
	s.world.Publish(t, localtest.Manifest("gate", features), 2)
	for name, next := range map[string]func(){
		"other agent": func() { s.mustPost(other, s.proxy("body 8")) },
		"no agent":    func() { s.mustPost("", "respond hello") },
	} {
		s.mustLoad(s.agent(), s.proxy("body 8"))
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		exchange := func(part, status, has string) {
			t.Helper()
			_, err := io.WriteString(conn, part)
			got := ""
			for err == nil && !strings.Contains(got, has) {
				some := make([]byte, 1024)
				var n int
				n, err = conn.Read(some)
				got += string(some[:n])
			}
			if err != nil || !strings.HasPrefix(got, "HTTP/1.1 "+status) {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
		// Caddy says that it goes on when the handler reads the body.
		exchange("POST /body HTTP/1.1\r\nHost: "+s.address+"\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", "100", "\r\n\r\n")
		next()
		exchange("hello", "403", "hello")
	}
}

// TestAgentsThatAreNotReady: a reload does not take an agent that has no scripts yet. Caddy keeps its
// configuration, and starts with such an agent if it has none.
func TestAgentsThatAreNotReady(t *testing.T) {
	needs.Time(t, "it waits for a registry that is gone")
	s := newAdministered(t)
	s.mustLoad(s.agent(), s.proxy(""))
	s.world.Publish(t, localtest.Manifest("gate", features), 2)
	if err := s.world.Stack.StopRegistry(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := s.agentIn("other", filepath.Join(s.world.Dir, "other"))
	err := s.post(other, s.proxy(""))
	if err == nil || !strings.Contains(err.Error(), "the agent is not ready") || !strings.Contains(err.Error(), "registry") {
		t.Errorf("the reload: %v", err)
	}
	if a := s.ask("/headers", ""); a.status != 200 {
		t.Errorf("after the reload: %d", a.status)
	}
	if err := errors.Join(caddy.Stop(), s.load(other, s.proxy(""))); err != nil {
		t.Fatal(err)
	}
	if a := s.ask("/headers", ""); a.status != 503 {
		t.Errorf("without scripts: %d", a.status)
	}
}
