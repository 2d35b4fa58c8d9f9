package scriptorium_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestAnAgentIsKilledDuringATry: the caller hears it long before the try would end, also if the agent is there again by then. The
// processes of the agent's tenants end with it.
func TestAnAgentIsKilledDuringATry(t *testing.T) {
	needs.Time(t, "starts three processes")
	needs.NoRace(t)
	t.Parallel()
	c := startGated(t, 2, "")
	settings := &script.TenantSettings{Isolation: script.IsolationProcess, MemoryBytes: 128 << 20}
	if _, _, err := c.client.SetTenant(t.Context(), "acme", settings, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	c.plan("route", 1, nil)
	c.live("route", 1)
	const agent = "node-0"
	for _, end := range []func(string){func(agent string) { c.restart(agent) }, c.kill} {
		c.heard(2)
		ended := make(chan error, 1)
		go func() {
			_, err := c.client.Try(t.Context(), registryclient.TryRequest{
				Name: of("draft"), Source: []byte("function handle() while true do end end"), Agent: agent, Timeout: time.Minute,
				Settings: &script.Settings{Spec: script.Spec{Limits: script.MaxLimits()}}, Calls: slices.Repeat([][]json.RawMessage{{json.RawMessage("1")}}, 50),
			})
			ended <- err
		}()
		await(t, "the try runs", func() bool {
			for _, ticks := range c.processorTime(agent) {
				if ticks > 100 {
					return true
				}
			}
			return false
		})
		tenants := c.children(agent)
		end(agent)
		if err := <-ended; script.KindOf(err) != script.Unavailable || !strings.Contains(err.Error(), "agent node-0 has left, or started again") {
			t.Errorf("the try ends with %v", err)
		}
		await(t, "the processes of tenants end", func() bool {
			for pid := range tenants {
				if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(stat), ") Z ") {
					return false
				}
			}
			return true
		})
	}
}
