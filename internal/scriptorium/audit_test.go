package scriptorium_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestNoAnswerWithoutARecord: with a strict audit, each call that was answered is in the log, whenever
// the agent was killed, and whether or not the tenant has a process of its own.
func TestNoAnswerWithoutARecord(t *testing.T) {
	needs.Time(t, "starts several processes one after the other")
	needs.NoRace(t)
	t.Parallel()
	c := startAgentsOn(startMistaken(t), 0, "")
	for _, isolation := range []script.Isolation{script.IsolationShared, script.IsolationProcess} {
		name := "node-" + string(isolation)
		settings := script.TenantSettings{Isolation: isolation, Audit: script.AuditStrict}
		if _, _, err := c.client.SetTenant(t.Context(), "acme", &settings, registryclient.DataWrite{Author: "test"}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.client.Publish(t.Context(), registryclient.PublishRequest{
			Name: script.Name{Tenant: "acme", Script: "route"}, Source: []byte("function handle(n) return n end"), Write: registryclient.Write{Author: "test"},
		}); err != nil {
			t.Fatal(err)
		}
		log := filepath.Join(c.dir, name+".jsonl")
		answered := map[string]bool{}
		for round := range 3 {
			c.startNamed(name, "--decision-log", "file:"+log)
			answersUntilKilled(c, name, round, answered)
		}
		c.startNamed(name, "--decision-log", "file:"+log)
		await(t, "the records of all calls that were answered are there", func() bool {
			recorded := recordedIn(t, log)
			for n := range answered {
				if !recorded[n] {
					return false
				}
			}
			return true
		})
		if len(answered) < 100 {
			t.Errorf("%s: %d calls were answered: the test shows nothing", isolation, len(answered))
		}
		c.kill(name)
	}
}

// answersUntilKilled notes which calls the agent answers. It kills the agent meanwhile.
func answersUntilKilled(c *canaries, name string, round int, answered map[string]bool) {
	c.t.Helper()
	client, err := agentclient.New("unix:" + filepath.Join(c.dir, name, "grpc.sock"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	await(c.t, "the agent answers", func() bool {
		_, err := client.Call(c.t.Context(), "acme/route", "first")
		return err == nil
	})
	const callers, each = 8, 10
	var (
		running sync.WaitGroup
		mu      sync.Mutex
		kill    sync.Once
	)
	for caller := range callers {
		running.Go(func() {
			for i := 0; ; i++ {
				n := fmt.Sprintf("%d-%d-%d", round, caller, i)
				if _, err := client.Call(c.t.Context(), "acme/route", n); err != nil {
					return // the agent is gone
				}
				mu.Lock()
				answered[n] = true
				mu.Unlock()
				if i == each {
					kill.Do(func() { _ = c.agents[name].cmd.Process.Kill() })
				}
			}
		})
	}
	running.Wait()
	_ = c.agents[name].cmd.Wait()
}

// recordedIn returns the arguments of the calls in the log, all lines of which are records.
func recordedIn(t *testing.T, log string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		var r struct{ Input, Outcome string }
		if strings.HasSuffix(line, "\n") && json.Unmarshal([]byte(line), &r) != nil {
			t.Fatalf("the log has the line %q", line)
		}
		if r.Outcome == "OK" {
			recorded[r.Input] = true
		}
	}
	return recorded
}
