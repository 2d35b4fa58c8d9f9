package local_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ask is what a process of another user does: it asks the sockets in the folder for the scripts over all protocols
// but SPOP, and prints an answer a line.
func ask(dir string, scripts ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	overHTTP := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "http.sock"))
	}}}
	fetch := func(method, path string) string {
		req, _ := http.NewRequestWithContext(ctx, method, "http://agent"+path, nil)
		resp, err := overHTTP.Do(req)
		if err != nil {
			return outcome(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, " ", strings.ReplaceAll(string(body), "\n", "|"))
	}
	fmt.Println("metrics", fetch(http.MethodGet, "/metrics"))
	fmt.Println("list", fetch(http.MethodGet, "/v1/scripts"))
	for _, name := range scripts {
		fmt.Println("http", name, fetch(http.MethodPost, "/v1/execute/"+name))
		fmt.Println("resp", name, command(ctx, filepath.Join(dir, "resp.sock"), "FCALL "+name+" 0"))
		client, err := agentclient.New("unix:" + filepath.Join(dir, "grpc.sock"))
		if err == nil {
			var result *agentclient.Result
			if result, err = client.Call(ctx, name); err == nil {
				fmt.Println("grpc", name, string(result.Values[0]))
				continue
			}
		}
		fmt.Println("grpc", name, outcome(err))
	}
}

// command sends one command of RESP, and returns the lines of its reply.
func command(ctx context.Context, socket, text string) string {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return outcome(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, text+"\r\nQUIT\r\n")
	reply, _ := io.ReadAll(conn)
	return strings.ReplaceAll(string(reply), "\r\n", "|")
}

func outcome(err error) string {
	if strings.Contains(err.Error(), "permission denied") {
		return "cannot connect"
	}
	return err.Error()
}

// askAs asks as another user, in a process of its own. It returns the answers by "protocol script".
func askAs(t *testing.T, user *syscall.Credential, dir string, scripts ...string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", append([]string{"ask", dir}, scripts...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &errs)
	}
	answers := map[string]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if words[0] == "metrics" || words[0] == "list" {
			answers[words[0]] = strings.Join(words[1:], " ")
			continue
		}
		answers[words[0]+" "+words[1]] = words[2]
	}
	return answers
}

// count is a script that leaves a counter of its tenant, so that there is something to see of it.
const count = `function handle() counter.add("orders", 1) return 7 end`

// foreign starts an agent whose folder others may pass through, with scripts of two tenants that both count.
func foreign(t *testing.T, change func(*agentd.Config)) *stack {
	t.Helper()
	needs.Root(t, "starts processes of other users")
	s := start(t, local.WithAgents(change))
	for _, dir := range []string{s.dir, s.AgentDir(1)} {
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	for _, tenant := range []string{"acme", "shop"} {
		published, err := s.registry.Publish(t.Context(), registryclient.PublishRequest{
			Name: script.Name{Tenant: tenant, Script: "count"}, Source: []byte(count), Write: registryclient.Write{Author: "test"},
			Settings: &script.Settings{Spec: patient()},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.convergeOf(published.Release.Name, published.Release.Revision)
	}
	return s
}

const (
	gidAcme, gidShop, gidAll = 47011, 47012, 47013
	uidStranger              = 47099
)

// TestAStranger: another user who may connect, and has no grant, sees that the agent is well, and nothing of tenants:
// neither on the sockets nor on the admin address.
func TestAStranger(t *testing.T) {
	admin := porttest.Address(t)
	s := foreign(t, func(cfg *agentd.Config) {
		cfg.CounterMetrics = true
		if strings.HasSuffix(cfg.Name, "1") {
			cfg.AdminAddress = admin
		}
	})
	dir := s.AgentDir(1)
	for _, protocol := range []string{"http", "grpc", "resp", "spop"} {
		if err := os.Chown(filepath.Join(dir, protocol+".sock"), -1, gidAll); err != nil {
			t.Fatal(err)
		}
	}
	for _, tenant := range []string{"acme", "shop"} {
		if _, err := s.agents[0].Call(t.Context(), tenant+"/count"); err != nil {
			t.Fatal(err)
		}
	}
	own := askAs(t, &syscall.Credential{Uid: 0, Gid: 0}, dir, "acme/count")
	if !strings.Contains(own["metrics"], `tenant="acme"`) || !strings.Contains(own["http acme/count"], "200 7") {
		t.Fatalf("root gets %v", own)
	}
	stranger := askAs(t, &syscall.Credential{Uid: uidStranger, Gid: gidAll}, dir, "acme/count", "shop/count", "none/none")
	for _, word := range []string{"acme", "shop", "orders"} {
		if strings.Contains(stranger["metrics"]+stranger["list"], word) {
			t.Errorf("a stranger sees %q: %s %s", word, stranger["metrics"], stranger["list"])
		}
	}
	for _, protocol := range []string{"http ", "grpc ", "resp "} {
		for _, there := range []string{"acme/count", "shop/count"} {
			got := strings.ReplaceAll(stranger[protocol+there], strings.Split(there, "/")[0], "none")
			if want := stranger[protocol+"none/none"]; got != want { // whether a script is there is none of its business
				t.Errorf("%s%s: %q, and of a script that is not there: %q", protocol, there, got, want)
			}
		}
	}
	if !strings.HasPrefix(stranger["metrics"], "200 ") || !strings.Contains(stranger["list"], `"scripts":[]`) {
		t.Errorf("a stranger gets %v", stranger)
	}
	if got := askAs(t, &syscall.Credential{Uid: uidStranger, Gid: uidStranger}, dir, "acme/count"); got["http acme/count"] != "cannot connect" || got["metrics"] != "cannot connect" {
		t.Errorf("who is not in the group gets %v", got)
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+admin+"/metrics", nil)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, _ := io.ReadAll(resp.Body)
	if text := string(page); !strings.Contains(text, "scriptorium_agent_calls_total") || strings.Contains(text, "acme") || strings.Contains(text, "orders") {
		t.Errorf("the admin address shows %s", text)
	}
}

// TestTenantSockets: who is in the group of a tenant's sockets may use this tenant and no other, whether it is in the
// group by its primary group or by another one, and also while the tenant has a process of its own.
func TestTenantSockets(t *testing.T) {
	s := foreign(t, func(cfg *agentd.Config) { cfg.TenantSockets = map[string]int{"acme": gidAcme, "shop": gidShop} })
	dir := s.AgentDir(1)
	acme, shop := filepath.Join(dir, "tenants", "acme"), filepath.Join(dir, "tenants", "shop")
	member := &syscall.Credential{Uid: uidStranger, Gid: gidAcme}
	check := func(isolated bool) {
		t.Helper()
		for _, who := range []*syscall.Credential{member, {Uid: uidStranger, Gid: uidStranger, Groups: []uint32{gidAcme}}} {
			got := askAs(t, who, acme, "acme/count", "shop/count")
			for _, protocol := range []string{"http ", "grpc ", "resp "} {
				if answer := got[protocol+"acme/count"]; !strings.Contains(answer, "7") || strings.Contains(answer, "DENIED") {
					t.Errorf("%s of acme: %q", protocol, answer)
				}
				other := got[protocol+"shop/count"]
				if !isolated && !strings.Contains(other, "this socket is for tenant acme alone") || isolated && !strings.Contains(other, "shop/count is not on this agent") {
					t.Errorf("%s of shop over acme's socket: %q", protocol, other)
				}
			}
			if !isolated && (!strings.Contains(got["list"], `"acme"`) || strings.Contains(got["list"], `"shop"`)) {
				t.Errorf("the list is %s", got["list"])
			}
			if strings.Contains(got["metrics"], "shop") {
				t.Errorf("acme's socket shows metrics of shop: %s", got["metrics"])
			}
		}
		for _, elsewhere := range []string{shop, dir} {
			if got := askAs(t, member, elsewhere, "acme/count"); got["http acme/count"] != "cannot connect" || got["resp acme/count"] != "cannot connect" {
				t.Errorf("a member of acme's group in %s gets %v", elsewhere, got)
			}
		}
		// root may use every tenant over the shared sockets, and over this one acme alone.
		if got := askAs(t, &syscall.Credential{}, acme, "shop/count"); strings.Contains(got["http shop/count"], "200") {
			t.Errorf("root over acme's socket: %v", got)
		}
	}
	check(false)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	before := madeAt(filepath.Join(acme, "http.sock"))
	data := registryclient.DataWrite{Author: "test"}
	for _, settings := range []*script.TenantSettings{{Isolation: script.IsolationProcess, MemoryBytes: 128 << 20}, nil} {
		if _, _, err := s.registry.SetTenant(ctx, "acme", settings, data); err != nil {
			t.Fatal(err)
		}
		if !eventually(ctx, func() bool {
			now := madeAt(filepath.Join(acme, "http.sock"))
			return now != 0 && now != before && strings.Contains(command(ctx, filepath.Join(acme, "resp.sock"), "FCALL acme/count 0"), "7")
		}) {
			t.Fatal("the other side does not serve the sockets")
		}
		before = madeAt(filepath.Join(acme, "http.sock"))
		check(settings != nil)
	}

	stop, cancelStop := context.WithTimeout(context.Background(), patience)
	defer cancelStop()
	if err := s.StopAgent(stop, 1); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(acme)
	if err != nil || len(left) > 0 {
		t.Errorf("a stopped agent leaves %v, %v", left, err)
	}
}

// madeAt returns when a file was made, or 0: another socket at the same path can have the same inode.
func madeAt(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.ModTime().UnixNano()
}

// TestTenantSocketsOfAKilledAgent: the next agent takes the place of what is left behind, and removes that of
// tenants that its flag does not name any more.
func TestTenantSocketsOfAKilledAgent(t *testing.T) {
	needs.Root(t, "gives folders to other groups")
	dir := t.TempDir()
	for _, tenant := range []string{"acme", "gone"} {
		folder := filepath.Join(dir, "agent-1", "tenants", tenant)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, protocol := range []string{"http", "grpc", "resp", "spop"} {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(folder, protocol+".sock")})
			if err != nil {
				t.Fatal(err)
			}
			l.SetUnlinkOnClose(false)
			_ = l.Close()
		}
	}
	kept := filepath.Join(dir, "agent-1", "tenants", "gone", "file")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := startIn(t, dir, local.WithAgents(func(cfg *agentd.Config) { cfg.TenantSockets = map[string]int{"acme": gidAcme} }))
	if got := command(t.Context(), filepath.Join(s.AgentDir(1), "tenants", "acme", "resp.sock"), "PING"); !strings.HasPrefix(got, "+PONG") {
		t.Errorf("acme's socket answers %q", got)
	}
	left, err := os.ReadDir(filepath.Dir(kept))
	if err != nil || len(left) != 1 || left[0].Name() != "file" {
		t.Errorf("of a tenant that is gone there is %v, %v", left, err)
	}
}

// TestTenantSocketsCostLittle: those of another tenant take a goroutine for each listener and no more.
func TestTenantSocketsCostLittle(t *testing.T) {
	needs.Root(t, "gives folders to other groups")
	goroutines := func(tenants int) int {
		groups := map[string]int{}
		for i := range tenants {
			groups[fmt.Sprintf("t%d", i)] = gidAcme
		}
		dir, err := os.MkdirTemp("", "local")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		s := startIn(t, dir, local.WithAgents(func(cfg *agentd.Config) { cfg.TenantSockets = groups }))
		defer s.stop()
		return runtime.NumGoroutine()
	}
	without, with := goroutines(0), goroutines(50)
	if most := without + agents*50*5; with > most { // four listeners, and some room for what else goes on
		t.Errorf("%d goroutines with 50 tenants' sockets and %d without: want at most %d", with, without, most)
	}
}
