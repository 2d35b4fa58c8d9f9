package fleet_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
)

var (
	security   = filepath.Join(root, "docs", "security.md")
	signatures = filepath.Join(root, "docs", "signatures.md")
	operating  = filepath.Join(root, "docs", "operating.md")
)

// The section of docs/security.md that sets up a fleet, and the one in it whose commands
// fail.
const (
	walkthrough = "From nothing to a signed call"
	refusals    = "9. See what is refused"
)

// TestPages follows the pages with one fleet: docs/security.md sets it up.
func TestPages(t *testing.T) {
	s := startReader(t)
	text, err := page.ReadSection(security, walkthrough)
	if err != nil {
		t.Fatal(err)
	}
	s.steps(part.Split(text, 2)[0])
	for _, title := range page.Headings(text) {
		if title == refusals {
			s.refusals()
			continue
		}
		s.follow(security, title)
	}
	t.Run("Agents", s.testAgents)
	t.Run("NATS", s.testNATS)
	t.Run("Hashes", s.testHashes)
	s.sign()
	s.operate()
	t.Run("Metrics", s.testMetrics)
	t.Run("Lost", s.testLost)
}

// part is where a section begins, also one within a section.
var part = regexp.MustCompile(`\n##+ `)

// sign runs the commands of docs/signatures.md.
func (s *session) sign() {
	s.t.Helper()
	text := s.read(signatures)
	for _, title := range page.Headings(text)[1:] {
		section, err := page.Section(text, title)
		if err != nil {
			s.t.Fatal(err)
		}
		if own := part.Split(section, 2)[0]; strings.Contains(own, "```") {
			s.steps(own)
		}
	}
}

// operate runs the commands of all sections of docs/operating.md, in their order.
func (s *session) operate() {
	s.t.Helper()
	text := s.read(operating)
	s.steps(part.Split(text, 2)[0])
	for _, title := range page.Headings(text)[1:] {
		section, err := page.Section(text, title)
		if err != nil {
			s.t.Fatal(err)
		}
		own := part.Split(section, 2)[0]
		switch {
		case title == "Restore":
			s.restore(own)
		case title == lost: // comes last: it makes another fleet
		case strings.Contains(own, "```"):
			s.steps(own)
		}
	}
}

// lost is the section of docs/operating.md for a fleet without etcd's data and without a
// snapshot.
const lost = "etcd was lost"

// testLost loses etcd for good, and follows what the page says of that.
func (s *session) testLost(t *testing.T) {
	s = s.of(t)
	const call = "scriptctl call acme/greet --agent-socket n1/grpc.sock"
	before := s.must(call)
	s.must(`kill "$(cat etcd.pid)"
wait "$(cat etcd.pid)" || :
rm -r restored.data`)
	etcd := page.Blocks(s.section(security, "3. etcd and its users"), "sh")[0]
	s.must(strings.Replace(etcd, "etcd.data", "lost.data", 1))
	s.must("while curl --silent --fail http://127.0.0.1:8080/readyz; do sleep 1; done")
	s.refused("scriptctl list", "is not at etcd prefix /scriptorium/")
	if after := s.must(call); after != before {
		t.Errorf("without etcd's data, the script answers %s instead of %s", after, before)
	}
	blocks := page.Blocks(s.section(operating, lost), "sh")
	if len(blocks) != 2 {
		t.Fatalf("the section %q has %d blocks: are registries no longer started between two?", lost, len(blocks))
	}
	s.must(blocks[0])
	s.must(page.Blocks(s.section(security, "6. The fleet and the registry"), "sh")[0])
	s.must("until scriptctl agents | grep foreign; do sleep 1; done")
	s.must(blocks[1])
	if after := s.must(call); after != before {
		t.Errorf("in the other fleet, the script answers %s instead of %s", after, before)
	}
	agent, _, _ := strings.Cut(page.Blocks(s.section(security, "7. Agents"), "sh")[0], "agentd --name edge-1")
	s.must(`kill "$(cat n1.pid)"
wait "$(cat n1.pid)" || :
id="$(grep -o '[A-Z0-9]\{20,\}' fleet.txt)"`)
	s.must(strings.Replace(agent, "agentd ", `agentd --adopt-fleet "$id" `, 1))
	s.must("until scriptctl agents | grep n1 | grep current; do sleep 1; done")
	if after := s.must(call); after != before {
		t.Errorf("in the fleet that it has adopted, the script answers %s instead of %s", after, before)
	}
}

// section returns a section of a page.
func (s *session) section(file, title string) string {
	s.t.Helper()
	text, err := page.ReadSection(file, title)
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// restore loses etcd with a write that the snapshot does not have, and restores it while
// the registry and the agents run.
func (s *session) restore(section string) {
	s.t.Helper()
	s.must(`sed 's/Hello/Lost/' greet.yaml >lost.yaml
scriptctl publish lost.yaml --wait
kill "$(cat etcd.pid)"
wait "$(cat etcd.pid)" || :
rm -r etcd.data`)
	blocks := page.Blocks(section, "sh")
	if len(blocks) != 2 {
		s.t.Fatalf("the section Restore has %d blocks: is etcd no longer started between two?", len(blocks))
	}
	s.must(blocks[0])
	text, err := page.ReadSection(security, "3. etcd and its users")
	if err != nil {
		s.t.Fatal(err)
	}
	start, _, _ := strings.Cut(page.Blocks(text, "sh")[0], "\nexport")
	s.must(strings.Replace(start, "etcd.data", "restored.data", 1))
	s.must(blocks[1])
	s.must(`until scriptctl call acme/greet --agent-socket n1/grpc.sock | grep 'Hello, world!'; do sleep 1; done`)
}

// named are metrics that a page names.
var named = regexp.MustCompile("`(scriptorium_(registry|agent)_[a-z_]+)`")

// testMetrics: there are those that docs/operating.md names.
func (s *session) testMetrics(t *testing.T) {
	s = s.of(t)
	there := map[string]string{}
	for process, address := range map[string]string{"registry": "127.0.0.1:8080", "agent": "127.0.0.1:8081"} {
		there[process] = s.must("curl --silent --fail http://" + address + "/metrics | grep '^# HELP scriptorium'")
	}
	for _, m := range named.FindAllStringSubmatch(s.read(operating), -1) {
		if !strings.Contains(there[m[2]], "# HELP "+m[1]+" ") {
			t.Errorf("the %s has no metric %s", m[2], m[1])
		}
	}
}

// testAgents: an agent asks for the tenants that its certificate may read, and no others.
func (s *session) testAgents(t *testing.T) {
	s = s.of(t)
	s.refused("scriptctl call acme/greet --agent-socket edge-1/grpc.sock", "acme/greet is not on this agent")
	text, err := page.ReadSection(security, "7. Agents")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(page.Blocks(text, "sh")[0]) {
		if strings.Contains(line, "--tenants") {
			all := strings.NewReplacer("--tenants 'edge-*'", "", "edge-1", "edge-2", "127.0.0.1:8082", "127.0.0.1:0").Replace(line)
			s.must(all + `until grep -q 'edge-agents has no role read' edge-2.log; do sleep 1; done`)
			return
		}
	}
	t.Error("the page starts no agent with --tenants")
}

// testNATS: the server refuses clients without the right password, and agents cannot publish events.
func (s *session) testNATS(t *testing.T) {
	s = s.of(t)
	password := strings.TrimSpace(s.must("cat nats-agent.password"))
	url := "tls://" + strings.TrimSpace(s.must("echo 127.0.0.1:4222"))
	ca := nats.RootCAs(filepath.Join(strings.TrimSpace(s.must("pwd")), "ca.crt"))
	for name, options := range map[string][]nats.Option{
		"nobody":         {ca},
		"wrong password": {ca, nats.UserInfo("agent", "wrong")},
		"no password":    {ca, nats.UserInfo("registry", "")},
	} {
		if conn, err := nats.Connect(url, options...); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v, %v", name, conn, err)
		}
	}
	refused := make(chan error, 1)
	agent, err := nats.Connect(url, ca, nats.UserInfo("agent", password), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	if err := errors.Join(agent.Publish("scriptorium.feed.all.event", nil), agent.Flush()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-refused:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Error(err)
		}
	case <-t.Context().Done():
	}
}

// testHashes: the server does not start with the prefix that htpasswd writes, and the
// comment in the configuration shows the same command as the page.
func (s *session) testHashes(t *testing.T) {
	s = s.of(t)
	const hash, strip, convert = `htpasswd -niBC 4 "" <`, ` | tr -d ':\n'`, ` | sed 's/^\$2y\$/$2a$/'`
	for file, text := range map[string]string{security: s.read(security), "the configuration": s.must("cat nats-server.conf")} {
		if !strings.Contains(text, hash) || !strings.Contains(text, strip+convert) {
			t.Errorf("%s does not show %s…%s", file, hash, strip+convert)
		}
	}
	const start = "nats-server --config nats-server.conf -t"
	s.must(start)
	s.refused(`AGENT_PASSWORD="$(`+hash+"nats-agent.password"+strip+`)" `+start, "AGENT_PASSWORD")
}

// startReader starts the session of somebody who has built the programs and reads the
// pages in the root of the tree.
func startReader(t *testing.T) *session {
	t.Helper()
	top, err := os.MkdirTemp("", "pages") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		showLogs(t, filepath.Join(top, "fleet"))
		_ = os.RemoveAll(top)
	})
	for _, dir := range []string{"bin", "deploy/nats"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	programs(t, filepath.Join(top, "bin"))
	if err := os.CopyFS(filepath.Join(top, "examples"), os.DirFS(filepath.Join(root, "examples"))); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(root, "deploy", "nats", "nats-server.conf"))
	if err != nil {
		t.Fatal(err)
	}
	// Tests run beside one another: each has ports of its own, and waits in smaller steps.
	nats := porttest.Address(t)
	changed := strings.Replace(string(config), "\nport: 4222\n", fmt.Sprintf("\nlisten: %q\n", nats), 1)
	if err := os.WriteFile(filepath.Join(top, "deploy", "nats", "nats-server.conf"), []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	change := []string{"127.0.0.1:4222", nats, "make build", ":", "sleep 1", "sleep 0.1", "--for 1s", "--for 100ms"}
	for _, port := range []string{"2379", "7070", "8080", "8081", "8082"} {
		change = append(change, "127.0.0.1:"+port, porttest.Address(t))
	}
	peers := "http://127.0.0.1:0" // a member that is alone has none
	return startSession(t, top, strings.NewReplacer(change...), "ETCD_LISTEN_PEER_URLS="+peers,
		"ETCD_INITIAL_ADVERTISE_PEER_URLS="+peers, "ETCD_INITIAL_CLUSTER=default="+peers,
		"ETCD_HEARTBEAT_INTERVAL=20", "ETCD_ELECTION_TIMEOUT=200") // it elects itself: the sooner the better
}

// showLogs shows the ends of the servers' logs if the test failed.
func showLogs(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || !t.Failed() {
		return
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			t.Logf("%s ends with:\n%s", filepath.Base(file), text[max(0, len(text)-4096):])
		}
	}
}

// refusals runs commands that the fleet refuses.
func (s *session) refusals() {
	s.t.Helper()
	text, err := page.ReadSection(security, refusals)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, command := range page.Transcript(text) {
		s.refused(command.Line, strings.TrimSpace(command.Prints))
	}
}
