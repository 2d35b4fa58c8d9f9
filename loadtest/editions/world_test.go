package editions_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/obs/obstest"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/netfault"
	"github.com/scriptorium-dev/scriptorium/script"
)

// patience bounds every wait; nothing is measured by it.
const patience = 90 * time.Second

var (
	route = script.Name{Tenant: "acme", Script: "route"}
	lib   = script.Name{Tenant: "acme", Script: "lib"}
	byAnn = registryclient.Write{Author: "ann"}
)

// world is an etcd, a NATS and a webhook that gates ask, with the programs that a test starts.
type world struct {
	t     *testing.T
	dir   string
	etcd  *embedded.Etcd
	nats  *embedded.NATS
	gates string // file
	hook  hook

	nodes map[string]*daemon // the last of each agent
	free  []string           // addresses for registries
	link  *netfault.Link     // to all of these, for agents
}

// start starts a world, and founds the fleet.
func start(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "editions") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{t: t, dir: dir, gates: filepath.Join(dir, "gates.yaml"), nodes: map[string]*daemon{}}
	var etcd, nats error
	w.etcd, etcd = embedded.StartEtcd(t.Context(), embedded.EtcdConfig{Dir: filepath.Join(dir, "etcd")})
	w.nats, nats = embedded.StartNATS(t.Context(), embedded.NATSConfig{})
	server := httptest.NewServer(&w.hook)
	t.Cleanup(server.Close)
	file := fmt.Appendf(nil, "sources: [{name: ci, webhook: %q, insecurePlaintext: true, tenants: [acme]}]", server.URL)
	if err := errors.Join(etcd, nats, os.WriteFile(w.gates, file, 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.nats.Stop(); w.etcd.Stop() })
	w.free = []string{porttest.Address(t), porttest.Address(t)}
	if w.link, err = netfault.Listen(t.Context(), netfault.Config{Name: "registries", Upstreams: slices.Clone(w.free)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.link.Close() })
	if err := command(t.Context(), dir, older.program("registryd"), "init", "--etcd-endpoints", w.etcd.Endpoint(), "--insecure-plaintext"); err != nil {
		t.Fatal(err)
	}
	return w
}

// hook is a webhook. It says no until it is told otherwise.
type hook struct {
	mu     sync.Mutex
	passes bool
	asked  []string
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, string(body))
	fmt.Fprintf(w, `{"pass": %t, "reason": "the build"}`, h.passes)
}

func (h *hook) say(passes bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.passes = passes
}

// count returns how often it was asked.
func (h *hook) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.asked)
}

// decisions is the decision log in the folder of an agent.
const decisions = "decisions.jsonl"

// daemon is a running program.
type daemon struct {
	t      *testing.T
	cmd    *exec.Cmd
	output *obstest.Output
	ended  func() // is called then
}

func run(t *testing.T, program string, env []string, args ...string) *daemon {
	t.Helper()
	d := &daemon{t: t, cmd: exec.CommandContext(context.WithoutCancel(t.Context()), program, args...), output: &obstest.Output{}}
	d.cmd.Env, d.cmd.Stdout, d.cmd.Stderr = append(os.Environ(), env...), d.output, d.output
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.stop()
		if t.Failed() {
			t.Logf("%s %v said:\n%s", program, args, d.output)
		}
	})
	return d
}

// stop ends the program in good order.
func (d *daemon) stop() {
	if d.cmd.ProcessState != nil {
		return
	}
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(patience, func() { _ = d.cmd.Process.Kill() })
	defer timer.Stop()
	_ = d.cmd.Wait()
	if d.ended != nil {
		d.ended()
	}
}

// registry is a registryd, and a client of this edition that reaches no other.
type registry struct {
	*daemon
	*registryclient.Client
	target, admin string
}

// registry starts a registry of the edition, and waits until it is ready.
func (w *world) registry(e edition, flags ...string) *registry {
	w.t.Helper()
	address, free := w.free[0], w.free[1:]
	w.free = free
	r := &registry{target: address, admin: porttest.Address(w.t)}
	args := append([]string{
		"--listen", address, "--admin-address", r.admin, "--etcd-endpoints", w.etcd.Endpoint(), "--nats-url", w.nats.URL(),
		"--insecure-unsigned", "--insecure-anonymous", "--insecure-plaintext",
	}, flags...)
	if e == newer {
		args = append(args, "--gates", w.gates)
	}
	r.daemon = run(w.t, e.program("registryd"), nil, args...)
	r.ended = func() { w.free = append(w.free, address) }
	client, err := registryclient.Dial(address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = client.Close() })
	r.Client = client
	await(w.t, e.name()+" registry is ready", func() error { return page(w.t.Context(), r.admin, "/readyz", `"ready":true`) })
	return r
}

// rewrites has the registry write the record of acme/route twice: it disables the script, and enables it again.
func (r *registry) rewrites() {
	r.t.Helper()
	for _, enabled := range []bool{false, true} {
		if _, _, err := r.SetEnabled(r.t.Context(), route, enabled, byAnn); err != nil {
			r.t.Fatal(err)
		}
	}
}

// leads waits until the registry leads.
func (r *registry) leads() {
	r.t.Helper()
	await(r.t, "the registry leads", func() error { return page(r.t.Context(), r.admin, "/metrics", "scriptorium_registry_leader 1") })
}

// agent starts an agent of the edition, in a zone of its name, and returns a client of it once these
// registries hear it.
func (w *world) agent(e edition, name string, registries ...*registry) *agentclient.Client {
	w.t.Helper()
	dir := filepath.Join(w.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	args := []string{
		"--name", name, "--labels", "zone=" + name, "--registry", w.link.Addr(), "--nats-url", w.nats.URL(), "--admin-address", "",
		"--socket-dir", dir, "--state-dir", filepath.Join(dir, "state"), "--insecure-unsigned", "--insecure-plaintext",
	}
	if e == newer {
		args = append(args, "--decision-log", "file:"+filepath.Join(dir, decisions))
	}
	w.nodes[name] = run(w.t, e.program("agentd"), nil, args...)
	client, err := agentclient.New("unix:" + filepath.Join(dir, "grpc.sock"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = client.Close() })
	for _, r := range registries {
		await(w.t, "the registry hears "+name, func() error {
			for a, err := range r.Agents(w.t.Context(), false) {
				if err == nil && a.Name == name && !a.Unknown {
					return nil
				}
			}
			return errors.New("it does not")
		})
	}
	return client
}

// answers waits until acme/route returns this on the agent.
func (w *world) answers(a *agentclient.Client, want string) {
	w.t.Helper()
	w.answersTo(a, route.String(), want)
}

// answersTo waits until what is called returns this on the agent.
func (w *world) answersTo(a *agentclient.Client, ref, want string) {
	w.t.Helper()
	await(w.t, "the agent answers "+want, func() error {
		if got := answerTo(w.t.Context(), a, ref); got != want {
			return errors.New("it answers " + got)
		}
		return nil
	})
}

func answer(ctx context.Context, a *agentclient.Client) string {
	return answerTo(ctx, a, route.String())
}

func answerTo(ctx context.Context, a *agentclient.Client, ref string) string {
	result, err := a.Call(ctx, ref)
	if err != nil {
		return err.Error()
	}
	return string(result.Values[0])
}

// publish publishes a source that returns the number, with a plan.
func (r *registry) publish(name script.Name, number int, plan script.Plan) {
	r.t.Helper()
	_, err := r.Publish(r.t.Context(), registryclient.PublishRequest{
		Name: name, Source: fmt.Appendf(nil, "function handle() return %d end", number), Write: byAnn,
		Settings: &script.Settings{Rollout: plan},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// waits waits until the registry says that the candidate of acme/route waits for this.
func (r *registry) waits(want string) {
	r.t.Helper()
	await(r.t, "the candidate waits: "+want, func() error {
		trials, err := r.trials()
		if err == nil && trials.Why != want {
			err = errors.New("it waits: " + trials.Why)
		}
		return err
	})
}

// trials is what the fleet says of the candidate of acme/route.
func (r *registry) trials() (*registryclient.Trials, error) {
	status, err := r.Status(r.t.Context(), route)
	if err != nil || len(status.Scripts) != 1 || status.Scripts[0].Trials == nil {
		return nil, fmt.Errorf("no candidate: %+v, %w", status.Scripts, err)
	}
	return status.Scripts[0].Trials, nil
}

// is waits until the release of the script is as wanted.
func (r *registry) is(name script.Name, what string, wanted func(script.Release) bool) (release script.Release) {
	r.t.Helper()
	await(r.t, what, func() (err error) {
		if release, err = r.Get(r.t.Context(), name); err == nil && !wanted(release) {
			err = fmt.Errorf("the release is %+v, its candidate %+v", release, release.Candidate)
		}
		return err
	})
	return release
}

// live waits until the version is live everywhere.
func (r *registry) live(name script.Name, number uint64) {
	r.t.Helper()
	r.is(name, fmt.Sprintf("version %d of %s is live", number, name), func(x script.Release) bool {
		return x.Active.Number == number && x.Candidate == nil
	})
}

// await waits until check returns nil.
func await(t *testing.T, what string, check func() error) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.After(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-timeout:
			t.Fatalf("never: %s: %v", what, err)
		}
	}
}

// page returns an error unless the admin page has the text.
func page(ctx context.Context, address, path, text string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && !strings.Contains(string(body), text) {
		err = fmt.Errorf("%s of %s has no %s: %.300s", path, address, text, body)
	}
	return err
}
