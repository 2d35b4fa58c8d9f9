package scriptctl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestUsageOfAFleet: what two agents ran is on record once they and the registry have stopped, which report and store
// the rest then.
func TestUsageOfAFleet(t *testing.T) {
	stack, dir := startStack(t, 2)
	p := person{t, dir}
	for _, tenant := range []string{"acme", "shop"} {
		manifest := fmt.Sprintf("apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\nmetadata: {name: echo}\nspec:\n  tenantId: %s\n  limits: {timeout: 10s}\n  entrypoint: handle\n  source: |\n    function handle(x) if x == 'bad' then error('no') end return x end\n", tenant)
		if out, code := p.publish(manifest, "--wait"); code != 0 {
			t.Fatal(code, out)
		}
	}
	for i := range 3 {
		for _, agent := range []string{"agent-1", "agent-2"} {
			for _, ref := range []string{"acme/echo", "shop/echo", "acme/echo"} {
				arg := `"seven"`
				if i == 0 {
					arg = `"bad"`
				}
				p.run("", "call", ref, arg, "--agent", agent)
			}
			p.run("", "call", "acme/nothing", "--agent", agent)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range 2 {
		if err := stack.StopAgent(ctx, i+1); err != nil {
			t.Fatal(err)
		}
	}
	awaitConnected(t, stack, 0) // the registry has their last reports
	type line struct {
		Tenant           string
		From, Until      time.Time
		Calls, Errors    int
		ProcessorSeconds float64
		Instructions     int
		BytesIn          int
		BytesOut         int
	}
	if err := stack.StopRegistry(ctx); err != nil {
		t.Fatal(err)
	}
	if err := stack.StartRegistry(ctx); err != nil {
		t.Fatal(err)
	}
	for _, by := range []string{"", "hour", "day"} {
		var lines []line
		if err := json.Unmarshal([]byte(p.must("usage", "--by", by, "-o", "json")), &lines); err != nil {
			t.Fatal(err)
		}
		sums := map[string]line{}
		for _, l := range lines {
			if l.ProcessorSeconds <= 0 || l.Instructions == 0 || !l.From.Before(l.Until) || l.From.Minute() != 0 {
				t.Errorf("by %q: %+v", by, l)
			}
			sum := sums[l.Tenant]
			sum.Calls, sum.Errors, sum.BytesIn, sum.BytesOut = sum.Calls+l.Calls, sum.Errors+l.Errors, sum.BytesIn+l.BytesIn, sum.BytesOut+l.BytesOut
			sums[l.Tenant] = sum
		}
		want := map[string]line{
			"acme": {Calls: 12, Errors: 4, BytesIn: 4*5 + 8*7, BytesOut: 8 * 7},
			"shop": {Calls: 6, Errors: 2, BytesIn: 2*5 + 4*7, BytesOut: 4 * 7},
		}
		if fmt.Sprint(sums) != fmt.Sprint(want) {
			t.Errorf("by %q: %+v, want %+v", by, sums, want)
		}
	}
	if table := p.must("usage", "--tenant", "acme"); !strings.HasPrefix(table, "TENANT   CALLS   ERRORS   PROCESSOR   INSTRUCTIONS   IN   OUT\nacme ") || strings.Contains(table, "shop") {
		t.Errorf("the table is\n%s", table)
	}
	if table := p.must("usage", "--by", "hour"); !strings.HasPrefix(table, "HOUR (UTC)         TENANT   CALLS") {
		t.Errorf("by the hour, the table is\n%s", table)
	}
	if csv := p.must("usage", "--by", "day", "-o", "csv"); !strings.HasPrefix(csv, "from,until,tenant,calls,") || !strings.Contains(csv, "T00:00:00Z,acme,") {
		t.Errorf("the CSV is\n%s", csv)
	}
}
