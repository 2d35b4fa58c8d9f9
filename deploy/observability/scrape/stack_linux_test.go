// Package scrape_test holds dashboards and rules against what a real Prometheus scrapes of a running stack.
package scrape_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/deploy/observability/rules"
	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/local/localtest"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/internal/process"
	"github.com/scriptorium-dev/scriptorium/internal/prometheustest"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	"github.com/scriptorium-dev/scriptorium/script"
)

var (
	picturesDir = flag.String("scrape.pictures", "", "folder for the pictures of the dashboards")
	picturesFor = flag.Duration("scrape.for", 0, "how long the stack works before the pictures are drawn")
)

// TestMain is the process of a tenant when it is asked to be.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		cmd := agentd.WorkerCommand()
		cmd.SetArgs([]string{})
		process.Main(cmd)
	}
	os.Exit(m.Run())
}

const agents = 3

// stack is a fleet at work, and the Prometheus that scrapes it.
type stack struct {
	*localtest.World
	prometheus v1.API
	url        string
	targets    int
	calls      []*agentclient.Client
}

const config = `
global: {scrape_interval: %[1]s, scrape_timeout: %[1]s, evaluation_interval: %[1]s, scrape_native_histograms: true}
rule_files: [%[2]s]
scrape_configs:
- job_name: scriptorium-registry
  static_configs: [{targets: [%[3]s], labels: {cluster: test, namespace: scriptorium-system}}]
- job_name: scriptorium-agent
  static_configs: [{targets: [%[4]s], labels: {cluster: test, namespace: scriptorium-system}}]
`

// start starts all of it. Prometheus scrapes that often.
func start(t *testing.T, every time.Duration) *stack {
	t.Helper()
	needs.Program(t, "prometheus")
	var mu sync.Mutex
	var ofAgents []string
	ofRegistry := porttest.Address(t)
	s := &stack{World: localtest.Start(t, agents, local.WithWorkers("worker"),
		local.WithRegistry(func(cfg *registryd.Config) { cfg.AdminAddress, cfg.CollectInterval = ofRegistry, time.Second }),
		local.WithAgents(func(cfg *agentd.Config) {
			mu.Lock()
			defer mu.Unlock()
			cfg.AdminAddress, cfg.CounterMetrics, cfg.Allow = porttest.Address(t), true, []string{"*"}
			ofAgents = append(ofAgents, cfg.AdminAddress)
		}))}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	text, err := rules.File()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s.url = prometheustest.StartWith(t, fmt.Sprintf(config, every, file, ofRegistry, strings.Join(ofAgents, ","))).URL
	client, err := api.NewClient(api.Config{Address: s.url})
	if err != nil {
		t.Fatal(err)
	}
	s.prometheus, s.targets = v1.NewAPI(client), agents+1
	for i := range agents {
		c, err := agentclient.New("unix:" + filepath.Join(s.Stack.AgentDir(i+1), "grpc.sock"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		s.calls = append(s.calls, c)
	}
	return s
}

// The scripts of the stack, by what is to be seen of them.
var scripts = map[string]string{
	"acme/route": `function handle(r) counter.add("routed", 1) return {pool = "web"} end`,
	"acme/price": `function handle() local sum = 0 for i = 1, 2000 do sum = sum + i end return sum end`,
	"shop/cart":  `function handle(r) if r.bad then error("no such cart") end return string.rep("x", 2000) end`,
	"shop/slow":  `function handle() while true do end end`,
	"vault/seal": `function handle() log.info("sealed") return 1 end`,
}

func manifest(name, edition, more string) string {
	tenant, base, _ := strings.Cut(name, "/")
	timeout := "5s" // no other call is late, also on a busy machine
	if name == "shop/slow" {
		timeout = "50ms"
	}
	return fmt.Sprintf("apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\nmetadata: {name: %s}\nspec:\n  tenantId: %s\n  limits: {timeout: %s, instructions: 100000000}\n%s  source: |\n    -- %s\n    %s\n",
		base, tenant, timeout, more, edition, scripts[name])
}

// furnish publishes the scripts, and has one candidate in each state.
func (s *stack) furnish(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), localtest.Patience)
	defer cancel()
	settings := &script.TenantSettings{Isolation: script.IsolationProcess}
	if _, _, err := s.Registry.SetTenant(ctx, "vault", settings, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	for name := range scripts {
		s.Publish(t, manifest(name, "first", ""), agents)
	}
	const steps = "  rollout: {steps: [{percent: 34, pause: 1h}]}\n"
	s.Publish(t, manifest("acme/price", "second", steps), 0)
	const fails = "  tests: [{name: it is closed, request: {}, expect: closed}]\n"
	s.Publish(t, manifest("shop/cart", "second", fails), 0)
}

// work calls the scripts and publishes new versions until ctx is done.
func (s *stack) work(ctx context.Context, t *testing.T) (wait func()) {
	t.Helper()
	var all sync.WaitGroup
	every := func(interval time.Duration, do func(n int)) {
		all.Go(func() {
			ticker := time.NewTicker(interval)
			defer ticker.Stop()
			for n := 1; ; n++ {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
					do(n)
				}
			}
		})
	}
	for i, c := range s.calls {
		call := func(name, argument string) { _, _ = c.Call(ctx, name, json.RawMessage(argument)) } // some fail on purpose
		every(time.Duration(20+10*i)*time.Millisecond, func(n int) {
			call("acme/route", `{"path":"/"}`)
			if n%2 == 0 {
				call("acme/price", `{}`)
			}
			if n%3 == 0 {
				call("shop/cart", `{"bad":`+fmt.Sprint(n%21 == 0)+`}`)
			}
			if n%5 == 0 {
				call("vault/seal", `{}`)
			}
			if n%100 == 0 {
				call("shop/slow", `{}`)
			}
		})
	}
	every(2*time.Second, func(n int) {
		if ctx.Err() == nil {
			s.Publish(t, manifest("acme/route", fmt.Sprint("edition ", n), ""), 0)
		}
	})
	return all.Wait
}
