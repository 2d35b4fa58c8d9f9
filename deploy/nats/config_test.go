// Package nats_test loads the configurations for NATS that we hand out into real
// servers, and tries to do what they must not allow.
package nats_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/crypto/bcrypt"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/natssink"
	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/proto/natsconn"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
)

const (
	patience         = 20 * time.Second
	registryPassword = "the password of registries"
	agentPassword    = "the password of agents"
)

// broker is a server with a configuration of ours.
type broker struct {
	url string
	ca  *certtest.CA
}

func start(t *testing.T, config string) broker {
	t.Helper()
	ca := certtest.NewCA(t)
	own := ca.Issue("nats", certtest.Leaf{CommonName: "nats"})
	for name, value := range map[string]string{
		"NATS_TLS_CERT": own.Cert, "NATS_TLS_KEY": own.Key, "NATS_TLS_CA": ca.File,
		"REGISTRY_PASSWORD": hash(t, registryPassword), "AGENT_PASSWORD": hash(t, agentPassword),
	} {
		t.Setenv(name, value)
	}
	n, err := embedded.StartNATS(t.Context(), embedded.NATSConfig{ConfigFile: config})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Stop)
	return broker{url: n.URL(), ca: ca}
}

func hash(t *testing.T, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

// client is a connection whose errors can be waited for.
type client struct {
	*nats.Conn
	errs chan error
}

// security shows a user, and believes the CA.
func security(t *testing.T, ca, user, password string) natsconn.Security {
	t.Helper()
	m, err := tlsfiles.Load(tlsfiles.Files{CA: ca}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return natsconn.Security{
		TLS:  func() (*tls.Config, error) { return m.Client() },
		User: user, Password: func() (string, error) { return password, nil },
	}
}

func connect(t *testing.T, url string, s natsconn.Security) (client, error) {
	t.Helper()
	options, err := s.Options()
	if err != nil {
		t.Fatal(err)
	}
	c := client{errs: make(chan error, 100)}
	options = append(options, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { c.errs <- err }), nats.NoReconnect())
	if c.Conn, err = nats.Connect(url, options...); err != nil {
		return c, err
	}
	t.Cleanup(c.Close)
	return c, nil
}

func (b broker) as(t *testing.T, user, password string) client {
	t.Helper()
	c, err := connect(t, b.url, security(t, b.ca.File, user, password))
	if err != nil {
		t.Fatalf("connect as %s: %v", user, err)
	}
	return c
}

func (c client) subscribe(t *testing.T, subject string) *nats.Subscription {
	t.Helper()
	sub, err := c.SubscribeSync(subject)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	return sub
}

func (c client) publish(t *testing.T, subject, text string) {
	t.Helper()
	if err := c.Publish(subject, []byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
}

// refused waits until the server has said that it does not allow what was asked last.
func (c client) refused(t *testing.T, what string) {
	t.Helper()
	select {
	case err := <-c.errs:
		if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want a refusal of %s", err, what)
		}
	case <-time.After(patience):
		t.Fatalf("%s was not refused", what)
	}
}

func next(t *testing.T, sub *nats.Subscription, want string) {
	t.Helper()
	m, err := sub.NextMsg(patience)
	if err != nil || string(m.Data) != want {
		t.Errorf("%s: %v, %v, want %q", sub.Subject, m, err, want)
	}
}

func TestEachMayDoWhatItNeeds(t *testing.T) {
	b := start(t, "nats-server.conf")
	registry, agent := b.as(t, "registry", registryPassword), b.as(t, "agent", agentPassword)
	reports, logs := registry.subscribe(t, "scriptorium.status.>"), registry.subscribe(t, "scriptorium.logs.>")
	feed, selective := agent.subscribe(t, "scriptorium.feed.all.*"), agent.subscribe(t, "scriptorium.feed.g-0123456789abcdef.*")
	rolls, tails := agent.subscribe(t, "scriptorium.rollcall"), agent.subscribe(t, "scriptorium.tail")
	recalls, copies := agent.subscribe(t, "scriptorium.recall"), registry.subscribe(t, "scriptorium.copies.>")
	queries, answers := agent.subscribe(t, "scriptorium.query"), registry.subscribe(t, "scriptorium.answers.>")
	contents := agent.subscribe(t, "scriptorium.content.n1.internal")
	registry.publish(t, "scriptorium.feed.all.event", "event")
	registry.publish(t, "scriptorium.feed.g-0123456789abcdef.beacon", "beacon")
	registry.publish(t, "scriptorium.rollcall", "roll call")
	registry.publish(t, "scriptorium.tail", "tail")
	registry.publish(t, "scriptorium.recall", "recall")
	registry.publish(t, "scriptorium.query", "query")
	registry.publish(t, "scriptorium.content.n1.internal", "content")
	agent.publish(t, "scriptorium.status.n1.internal", "status")
	agent.publish(t, "scriptorium.logs.n1.internal", "logs")
	agent.publish(t, "scriptorium.copies.n1.internal", "copy")
	agent.publish(t, "scriptorium.answers.n1.internal", "answer")
	agent.publish(t, "scriptorium.decisions.acme.route.n1.internal", "decision")
	agent.subscribe(t, "scriptorium.acks.n1.internal.abc.*")
	next(t, feed, "event")
	next(t, selective, "beacon")
	next(t, rolls, "roll call")
	next(t, tails, "tail")
	next(t, reports, "status")
	next(t, logs, "logs")
	next(t, recalls, "recall")
	next(t, copies, "copy")
	next(t, queries, "query")
	next(t, contents, "content")
	next(t, answers, "answer")
	for _, c := range []client{registry, agent} {
		select {
		case err := <-c.errs:
			t.Error(err)
		default:
		}
	}
}

func TestAnAgentAnnouncesNothing(t *testing.T) {
	b := start(t, "nats-server.conf")
	registry, thief, other := b.as(t, "registry", registryPassword), b.as(t, "agent", agentPassword), b.as(t, "agent", agentPassword)
	feed, rolls := other.subscribe(t, "scriptorium.feed.>"), other.subscribe(t, "scriptorium.rollcall")
	for _, subject := range []string{
		"scriptorium.feed.all.event", "scriptorium.feed.all.beacon", "scriptorium.feed.g-0123456789abcdef.event",
		"scriptorium.rollcall", "scriptorium.tail", "scriptorium.recall", "scriptorium.query", "scriptorium.content.n2", "scriptorium.feed", "scriptorium.logs", "scriptorium.copies", "scriptorium.answers", "scriptorium.decisions", "scriptorium.acks.n2.x", "other.status.n1", "other.logs.n1", "_INBOX.x", "$SYS.REQ.SERVER.PING",
	} {
		thief.publish(t, subject, "forged")
		thief.refused(t, subject)
	}
	for _, subject := range []string{"scriptorium.status.>", "scriptorium.status.n2", "scriptorium.logs.>", "scriptorium.logs.n2", "scriptorium.copies.>", "scriptorium.copies.n2", "scriptorium.answers.>", "scriptorium.answers.n2", "scriptorium.decisions.>", "scriptorium.decisions.acme.route.n2", "scriptorium.*.>", ">", "other.feed.>", "$SYS.>"} {
		thief.subscribe(t, subject)
		thief.refused(t, subject)
	}
	// What was forged would have come before this.
	registry.publish(t, "scriptorium.feed.all.event", "true")
	registry.publish(t, "scriptorium.rollcall", "true")
	next(t, feed, "true")
	next(t, rolls, "true")
}

func TestARegistryReportsNothing(t *testing.T) {
	b := start(t, "nats-server.conf")
	registry := b.as(t, "registry", registryPassword)
	for _, subject := range []string{"scriptorium.status.n1", "scriptorium.logs.n1", "scriptorium.copies.n1", "scriptorium.answers.n1", "scriptorium.decisions.acme.route.n1"} {
		registry.publish(t, subject, "forged")
		registry.refused(t, subject)
	}
	for _, subject := range []string{"scriptorium.feed.>", "scriptorium.tail", "scriptorium.recall", "scriptorium.query", "scriptorium.content.>"} {
		registry.subscribe(t, subject)
		registry.refused(t, subject)
	}
}

func TestNobodyElseIsLetIn(t *testing.T) {
	b := start(t, "nats-server.conf")
	for name, s := range map[string]natsconn.Security{
		"wrong password":              security(t, b.ca.File, "agent", registryPassword),
		"no password":                 security(t, b.ca.File, "agent", ""),
		"unknown user":                security(t, b.ca.File, "root", agentPassword),
		"nobody":                      {TLS: security(t, b.ca.File, "", "").TLS},
		"a server of another CA":      security(t, certtest.NewCA(t).File, "agent", agentPassword),
		"TLS that nobody has set up":  {User: "agent", Password: security(t, b.ca.File, "", agentPassword).Password},
		"a user that has no password": {User: "agent"},
	} {
		options, err := s.Options()
		if err == nil {
			var c *nats.Conn
			if c, err = nats.Connect(b.url, append(options, nats.NoReconnect())...); err == nil {
				c.Close()
			}
		}
		if err == nil {
			t.Errorf("%s: connected", name)
		}
	}
}

func TestNothingIsTakenInPlainText(t *testing.T) {
	b := start(t, "nats-server.conf")
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	if info, err := r.ReadString('\n'); err != nil || !strings.Contains(info, `"tls_required":true`) {
		t.Fatalf("%q, %v", info, err)
	}
	fmt.Fprintf(conn, "CONNECT {\"verbose\":true,\"user\":\"agent\",\"pass\":%q}\r\nPING\r\n", agentPassword)
	for {
		line, err := r.ReadString('\n')
		if strings.HasPrefix(line, "+OK") || strings.HasPrefix(line, "PONG") {
			t.Fatalf("the server answered %q", line)
		}
		if err != nil {
			return
		}
	}
}

// withUser starts a server whose configuration has one more user, as docs/security.md shows it.
func withUser(t *testing.T, user string) broker {
	t.Helper()
	docs, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```\n(\\s*\\{\n\\s*user: " + user + "\n.*?)```").FindSubmatch(docs)
	config, err := os.ReadFile("nats-server.conf")
	if err != nil || block == nil {
		t.Fatalf("no user %s in docs/security.md, or %v", user, err)
	}
	path := filepath.Join(t.TempDir(), "nats-server.conf")
	more := strings.Replace(string(config), "users = [", "users = [\n"+string(block[1]), 1)
	if err := os.WriteFile(path, []byte(more), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, path)
}

// TestTheNarrowerUser of docs/security.md hears its own group, and speaks for its own
// node.
func TestTheNarrowerUser(t *testing.T) {
	t.Setenv("AGENT_N1_PASSWORD", hash(t, "the password of n1"))
	b := withUser(t, "agent-n1")
	registry, n1 := b.as(t, "registry", registryPassword), b.as(t, "agent-n1", "the password of n1")
	reports, feed := registry.subscribe(t, "scriptorium.status.>"), n1.subscribe(t, "scriptorium.feed.g-4f1e5d7a0b3c2968.*")
	logs, tails := registry.subscribe(t, "scriptorium.logs.>"), n1.subscribe(t, "scriptorium.tail")
	n1.publish(t, "scriptorium.status.n2", "forged")
	n1.refused(t, "scriptorium.status.n2")
	n1.publish(t, "scriptorium.logs.n2", "forged")
	n1.refused(t, "scriptorium.logs.n2")
	n1.publish(t, "scriptorium.copies.n2", "forged")
	n1.refused(t, "scriptorium.copies.n2")
	n1.publish(t, "scriptorium.answers.n2", "forged")
	n1.refused(t, "scriptorium.answers.n2")
	n1.publish(t, "scriptorium.decisions.acme.route.n2", "forged")
	n1.refused(t, "scriptorium.decisions.acme.route.n2")
	n1.subscribe(t, "scriptorium.acks.n2.>")
	n1.refused(t, "scriptorium.acks.n2.>")
	n1.subscribe(t, "scriptorium.feed.all.*")
	n1.refused(t, "scriptorium.feed.all.*")
	n1.publish(t, "scriptorium.status.n1", "true")
	n1.publish(t, "scriptorium.logs.n1", "true")
	n1.publish(t, "scriptorium.decisions.acme.route.n1", "true")
	n1.subscribe(t, "scriptorium.acks.n1.>")
	registry.publish(t, "scriptorium.tail", "true")
	registry.publish(t, "scriptorium.feed.g-4f1e5d7a0b3c2968.event", "true")
	next(t, reports, "true")
	next(t, feed, "true")
	next(t, logs, "true")
	next(t, tails, "true")
}

// TestTheCollectorOfATenant of docs/security.md gets the records of that tenant, which agents publish.
func TestTheCollectorOfATenant(t *testing.T) {
	const password = "the password of acme"
	t.Setenv("COLLECTOR_ACME_PASSWORD", hash(t, password))
	b := withUser(t, "collector-acme")
	collector := b.as(t, "collector-acme", password)
	for _, subject := range []string{"scriptorium.decisions.>", "scriptorium.decisions.shop.>", "scriptorium.feed.>"} {
		collector.subscribe(t, subject)
		collector.refused(t, subject)
	}
	collector.publish(t, "scriptorium.decisions.acme.route.n1", "forged")
	collector.refused(t, "scriptorium.decisions.acme.route.n1")
	records := collector.subscribe(t, "scriptorium.decisions.acme.>")
	sink, err := natssink.New(natssink.Config{
		URLs: []string{b.url}, Security: security(t, b.ca.File, "agent", agentPassword), Subjects: wire.Subjects{Prefix: wire.DefaultPrefix}, Agent: "n1",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close(t.Context())
	const shop, acme = `{"decision_id":"1","tenant":"shop","script":"cart"}`, `{"decision_id":"2","tenant":"acme","script":"route"}`
	if err := sink.Write(t.Context(), [][]byte{[]byte(shop), []byte(acme)}); err != nil {
		t.Fatal(err)
	}
	next(t, records, acme)
}
