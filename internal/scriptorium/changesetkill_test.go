package scriptorium_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/netfault"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestACanarySetAndTwoRegistries: the registry that leads goes away in each step of a change set, in
// good order or not, and the other one goes on. It is back before that one goes.
func TestACanarySetAndTwoRegistries(t *testing.T) {
	needs.NoRace(t)
	t.Parallel()
	m := startMistaken(t)
	both := [2]struct {
		address, admin string
		*daemon
	}{{address: m.registry, admin: m.admin}, {address: porttest.Address(t), admin: porttest.Address(t)}}
	start := func(i int) {
		both[i].daemon = run(t, "registryd", []string{
			"--listen", both[i].address, "--admin-address", both[i].admin, "--etcd-endpoints", m.etcd.Endpoint(), "--nats-url", m.nats.URL(),
			"--insecure-unsigned", "--insecure-anonymous", "--insecure-plaintext",
		})
	}
	link, err := netfault.Listen(t.Context(), netfault.Config{Name: "registries", Upstreams: []string{both[0].address, both[1].address}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Close() })
	start(1)
	c := startCanariesOn(m, "--registry", link.Addr()) // it starts the first one, too
	both[0].daemon = c.process
	c.mustTogether(1)
	c.liveEdition(1)
	defer c.watch(both[0].address, both[1].address)()

	leader := func() (which int) {
		await(t, "a registry leads", func() bool {
			for i := range both {
				if _, text := get(t.Context(), both[i].admin, "/metrics"); strings.Contains(text, "scriptorium_registry_leader 1") {
					which = i
					return true
				}
			}
			return false
		})
		return which
	}
	plan := []script.Step{percent(20), percent(50), percent(80)}
	rounds := 2
	if testing.Short() {
		rounds, plan = 1, plan[:1]
	}
	ended := 0
	for round := range rounds {
		n := round + 2
		c.becomes("the registry is back", func(observation) bool { return true })
		c.mustTogether(n, plan...)
		for k := range plan {
			first := leader()
			c.registry = both[1-first].address // where it is observed
			e := c.becomes(fmt.Sprintf("it is in step %d, or further", k), func(e observation) bool { return e.step >= k || e.trial == 0 })
			if e.trial == 0 {
				break
			}
			if (round+k)%2 == 0 {
				_ = both[first].cmd.Process.Kill()
				_ = both[first].cmd.Wait()
			} else {
				c.stop(both[first].daemon)
			}
			ended++
			start(first)
			c.awaitPage(both[first].admin, http.StatusOK, `"ready":true`)
		}
		c.liveEdition(n)
		c.registry = both[0].address
	}
	t.Logf("%d times the registry that led ended", ended)
}

// etcdProcess is a process of etcd, which can be killed and started again.
type etcdProcess struct {
	t              *testing.T
	path, dir      string
	endpoint, peer string
	cmd            *exec.Cmd
}

func newEtcdProcess(t *testing.T) *etcdProcess {
	t.Helper()
	e := &etcdProcess{
		t: t, path: needs.Program(t, "etcd"), dir: filepath.Join(t.TempDir(), "etcd"),
		endpoint: "http://" + porttest.Address(t), peer: "http://" + porttest.Address(t),
	}
	e.start()
	return e
}

func (e *etcdProcess) start() {
	e.t.Helper()
	e.cmd = exec.CommandContext(context.WithoutCancel(e.t.Context()), e.path, "--name", "m", "--data-dir", e.dir, "--log-level", "error",
		"--listen-client-urls", e.endpoint, "--advertise-client-urls", e.endpoint, "--listen-peer-urls", e.peer,
		"--initial-advertise-peer-urls", e.peer, "--initial-cluster", "m="+e.peer, "--heartbeat-interval", "20", "--election-timeout", "200")
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
}

// Endpoint implements etcdServer.
func (e *etcdProcess) Endpoint() string { return e.endpoint }

// Stop implements etcdServer. It ends the process as kill -9 does.
func (e *etcdProcess) Stop() {
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait()
}

// TestACanarySetAndAKilledEtcd: etcd is killed while change sets are published and promoted. All of
// one is there then, or nothing. What was acknowledged is there.
func TestACanarySetAndAKilledEtcd(t *testing.T) {
	needs.NoRace(t)
	t.Parallel()
	etcd := newEtcdProcess(t)
	c := startCanariesOn(startMistakenOn(t, etcd))
	c.mustTogether(1)
	c.liveEdition(1)
	defer c.watch(c.registry)()
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	there, acknowledged := 0, 0
	for n := 2; n < 2+rounds; n++ {
		atOnce := n%2 == 0
		write := func(ctx context.Context) error { return together(ctx, c.client, n) }
		if !atOnce {
			c.mustTogether(n, script.Step{Percent: 30, Pause: time.Hour})
			c.becomes("it is in its step", func(e observation) bool { return e.step == 1 })
			write = func(ctx context.Context) error {
				_, _, err := c.client.Steer(ctx, cart, registryclient.Promote, 0, registryclient.Write{Author: "ann"})
				return err
			}
		}
		done := make(chan error)
		go func() {
			bounded, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			done <- write(bounded)
		}()
		for range rand.N(4) { // about as long as it takes
			_, _ = c.client.Get(t.Context(), checkout)
		}
		etcd.Stop()
		etcd.start()
		err := <-done
		e := c.becomes("etcd is back", func(observation) bool { return true })
		isThere := e.live == uint64(n) //nolint:gosec // it is small
		if isThere {
			there++
		}
		if err == nil {
			acknowledged++
			if !isThere {
				t.Errorf("edition %d was acknowledged, and it is %+v", n, e)
			}
		} else if !isThere {
			await(t, "it is written after all", func() bool {
				err = write(t.Context())
				return script.KindOf(err) != script.Unavailable
			})
			if err != nil {
				t.Fatal(errors.Join(fmt.Errorf("edition %d", n), err))
			}
		}
		c.liveEdition(n)
	}
	t.Logf("of %d writes, %d were there after the kill, of which %d were acknowledged", rounds, there, acknowledged)
}
