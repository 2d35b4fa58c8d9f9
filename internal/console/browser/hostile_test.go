package browser_test

import (
	"context"
	"encoding/json"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// evil leaves text and attributes in each way that runs a script in a page without protection, and turns the direction of what follows.
const evil = `"'><img src=x onerror=window.pwned=1><svg onload=window.pwned=1></title></script><script>window.pwned=1</script>{{7*7}}` + "\u202e"

// marker is the part of evil that pages show as it is.
const marker = "onerror=window.pwned=1"

// TestHostileText checks that no text that a tenant, an author or a node chooses runs in the browser of another person, or is even
// taken as markup. A violation of the content security policy fails the test, too: it is an error in the browser's log.
func TestHostileText(t *testing.T) {
	w := start(t, 2, local.WithAgents(func(c *agentd.Config) { c.Labels = map[string]string{"owner": evil} }))
	w.publishEvil(t)
	w.report(t, 1, lie)
	p := w.open(t, "/")
	for _, one := range []page{
		{"scripts", "/?q=" + url.QueryEscape(evil), "No script matches"},
		{"script", "/script/?name=acme%2Froute", "Publish…"},
		{"no script", "/script/?name=" + url.QueryEscape("acme/"+evil), marker},
		{"history", "/script/history/?name=acme%2Froute&a=1&b=2", marker},
		{"rollout", "/script/rollout/?name=acme%2Froute", marker},
		{"fleet", "/fleet/", "agent-1"},
		{"fleet by zone", "/fleet/?q=" + url.QueryEscape(evil), marker},
		{"agent", "/fleet/agent/?name=agent-1", marker},
		{"lying agent", "/fleet/agent/?name=crowd-00000", marker},
		{"no agent", "/fleet/agent/?name=" + url.QueryEscape(evil), marker},
		{"events", "/fleet/events/", marker},
		{"logs", "/logs/?tenant=acme", marker},
		{"values", "/values/?tenant=acme&key=flags%2Fx", marker},
		{"no values", "/values/?tenant=acme&prefix=" + url.QueryEscape(evil), marker},
		{"tenants", "/tenants/?tenant=acme", "acme"},
		{"no tenant", "/tenants/?tenant=" + url.QueryEscape(evil), "tenant"},
		{"access", "/access/", "anonymous"},
		{"audit", "/audit/", marker},
		{"signed in", "/signin/?to=" + url.QueryEscape("javascript:window.pwned=1"), "Sign"},
		{"error", "/signin/?error=" + url.QueryEscape(evil), "Sign"},
	} {
		t.Log(one.name)
		p.Go(w.url + one.path)
		p.See(one.shows)
		if one.name == "values" {
			p.Click("button", "Show content")
			p.See("Hide content")
		}
		var harmed bool
		p.Eval(`window.pwned !== undefined || document.querySelector('img[src=x], svg[onload], a[href^="javascript:"]') !== null || document.title.includes('49')`, &harmed)
		if harmed {
			t.Errorf("%s: the page took text for markup:\n%s", one.path, p.Text("body"))
		}
	}
}

// lie has an agent report the text in each field that takes any text.
func lie(_ int, m *eventv1.Status) {
	m.Software, m.Held = `<img src=x `+marker+`>`, evil
	m.Labels = map[string]string{"topology.kubernetes.io/zone": evil, evil: evil}
	m.Disk = &eventv1.Disk{Fault: evil}
	m.Failures = []*eventv1.Failure{{Key: "releases/acme/route", Revision: 1, Error: &scriptv1.Error{Kind: "SCRIPT", Field: evil, Message: evil}}}
}

// publishEvil writes the text wherever a tenant, an author or an agent can.
func (w *world) publishEvil(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	name := script.Name{Tenant: "acme", Script: "route"}
	by := registryclient.Write{Author: evil, Note: evil}
	quoted := "[==[" + evil + "]==] .. \"\\27[2J\""
	text, err := json.Marshal(evil + "\x1b[2J")
	if err != nil {
		t.Fatal(err)
	}
	settings := script.Settings{
		Spec: script.Spec{
			Config: append(append([]byte(`{"key": `), text...), 0x7d), Tests: []script.Test{{Name: evil, Request: []byte("{}"), Expect: text}},
			Limits: script.Limits{Timeout: script.MaxLimits().Timeout}, // the machine may be busy
		},
	}
	for _, source := range []string{
		"function handle(who) log.warn(" + quoted + ") if who == 'fail' then error(" + quoted + ") end return " + quoted + " end",
		"-- " + strings.ReplaceAll(evil, "\n", " ") + "\nfunction handle() error(" + quoted + ") end",
	} {
		if _, err := w.Registry.Publish(ctx, registryclient.PublishRequest{Name: name, Source: []byte(source), Settings: &settings, Write: by}); err != nil {
			t.Fatal(err)
		}
		if source[0] == 'f' {
			w.live(t, "route", 1)
		}
	}
	if _, _, err := w.Registry.PutValue(ctx, script.ValueKey{Tenant: "acme", Key: "flags/x"}, []byte(evil), registryclient.DataWrite{Author: evil, Note: evil}); err != nil {
		t.Fatal(err)
	}
	client, err := agentclient.New("unix:" + filepath.Join(w.Stack.AgentDir(1), "grpc.sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	_, _ = client.Call(ctx, name.String(), "x")
	if _, err := client.Call(ctx, name.String(), "fail"); err == nil || !strings.Contains(err.Error(), "onerror") {
		t.Fatalf("the script does not fail as it should: %v", err)
	}
}
