package recentcalls_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/registry/query"
	"github.com/scriptorium-dev/scriptorium/registry/recentcalls"
	"github.com/scriptorium-dev/scriptorium/script"
)

var route = script.Name{Tenant: "acme", Script: "route"}

// answers are records of agents. Each agent follows all tenants, except "elsewhere".
type answers map[string][]string

func (a answers) Ask(_ context.Context, _ query.Question, take func(query.Part)) (query.Result, error) {
	for agent, records := range a {
		m := &eventv1.RecentCalls{}
		for _, record := range records {
			m.Records = append(m.Records, []byte(record))
		}
		part := query.Part{Agent: agent, Answer: &eventv1.Answer{Kind: &eventv1.Answer_RecentCalls{RecentCalls: m}}}
		if agent == "elsewhere" {
			part.Tenants, _ = script.ParseSelector([]string{"shop"})
		}
		take(part)
	}
	return query.Result{}, nil
}

func record(tenant, name string, at time.Time, input string) string {
	return fmt.Sprintf(`{"timestamp":%q,"tenant":%q,"script":%q,"version":3,"input":%s}`, at.Format(time.RFC3339Nano), tenant, name, input)
}

// TestCollect: the newest calls of all agents, and nothing that is not what it should be.
func TestCollect(t *testing.T) {
	now := time.Now().UTC()
	all := answers{"elsewhere": {record("acme", "route", now, `"of an agent that may not follow the tenant"`)}}
	for i := range 10 {
		for n := range 20 {
			agent := fmt.Sprint("n", i)
			all[agent] = append(all[agent], record("acme", "route", now.Add(-time.Duration(10*n+i)*time.Second), fmt.Sprint(10*n+i)))
		}
	}
	all["liar"] = []string{
		"", "no JSON", "[]", record("shop", "route", now, `"of another tenant"`), record("acme", "other", now, `"of another script"`),
		record("acme", "route", now.AddDate(1, 0, 0), `"of the future"`), record("acme", "route", now, `"`+strings.Repeat("x", 1<<20)+`"`),
	}
	for _, limit := range []int{0, 1, 100} {
		found, err := recentcalls.Collect(t.Context(), all, recentcalls.Request{Of: route, Limit: limit})
		want := limit
		if limit == 0 {
			want = recentcalls.DefaultCalls
		}
		if err != nil || len(found.Calls) != want {
			t.Fatalf("limit %d: %d calls, %v", limit, len(found.Calls), err)
		}
		for i, c := range found.Calls {
			if c.Agent != fmt.Sprint("n", i%10) || !strings.HasSuffix(string(c.Record), fmt.Sprintf(`"input":%d}`, i)) || c.Version != 3 {
				t.Fatalf("limit %d: call %d is %s of %s", limit, i, c.Record, c.Agent)
			}
		}
	}
	for _, limit := range []int{-1, 101} {
		if _, err := recentcalls.Collect(t.Context(), all, recentcalls.Request{Of: route, Limit: limit}); script.KindOf(err) != script.Invalid {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	large := answers{}
	for i := range 100 {
		large["n"] = append(large["n"], record("acme", "route", now.Add(-time.Duration(i)*time.Second), `"`+strings.Repeat("x", 60<<10)+`"`))
	}
	found, err := recentcalls.Collect(t.Context(), large, recentcalls.Request{Of: route, Limit: 100})
	if bytes := 60 << 10 * len(found.Calls); err != nil || bytes > 2<<20 || bytes < 1<<20 {
		t.Errorf("%d large records, %v", len(found.Calls), err)
	}
}
