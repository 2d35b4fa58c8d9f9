package local_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestPersonalVersions: calls with the key run the personal version, on each agent, by name and in a chain. No other
// call does, and neither the script's versions nor its rollout change.
func TestPersonalVersions(t *testing.T) {
	for isolation, settings := range map[string]script.TenantSettings{
		"in the agent":            {},
		"in a process of its own": {Isolation: script.IsolationProcess},
	} {
		t.Run(isolation, func(t *testing.T) { testPersonal(t, settings) })
	}
}

func testPersonal(t *testing.T, settings script.TenantSettings) {
	t.Helper()
	s, ctx, by := start(t), t.Context(), registryclient.Write{Author: "test"}
	if _, _, err := s.registry.SetTenant(ctx, name.Tenant, &settings, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	publish := func(n script.Name, source string, spec script.Spec) script.Release {
		t.Helper()
		spec.Limits = patient().Limits
		p, err := s.registry.Publish(ctx, registryclient.PublishRequest{Name: n, Source: []byte(source), Write: by, Settings: &script.Settings{Spec: spec}})
		if err != nil {
			t.Fatal(err)
		}
		s.convergeOf(n, p.Release.Revision)
		return p.Release
	}
	const key, from = "ann-3f9c1b72", "request.headers.x-dev"
	event := script.Trigger{Event: "pre-route", Priority: 5}
	publish(name, `function handle(r) return {metadata = {by = "live"}} end`, script.Spec{Trigger: event})
	publish(script.Name{Tenant: name.Tenant, Script: "first"}, `function handle(r) return {metadata = {first = "yes"}} end`, script.Spec{Trigger: script.Trigger{Event: "pre-route", Priority: 9}})
	own := script.PersonalName(name, "ann")
	mine := &script.Personal{Of: name.Script, Key: key, From: from, Until: time.Now().Add(time.Hour)}
	publish(own, `function handle(r) return {metadata = {by = "ann"}} end`, script.Spec{Personal: mine})

	is := func(what string, wanted string) {
		t.Helper()
		for i := range s.agents {
			for call, want := range map[string]string{
				"by name":               `{"metadata":{"by":"live"}}`,
				"with a key":            `{"metadata":{"by":"` + wanted + `"}}`,
				"with another key":      `{"metadata":{"by":"live"}}`,
				"a version with a key":  `{"metadata":{"by":"live"}}`,
				"the personal version":  `{"metadata":{"by":"` + wanted + `"}}`,
				"decide":                `live`,
				"decide with a key":     wanted,
				"an event":              `live first`,
				"an event with a key":   wanted + ` first`,
				"an event with another": `live first`,
			} {
				if got := s.personally(i, call, key); got != want && (call != "the personal version" || wanted != "live") {
					t.Errorf("%s, agent-%d, %s: %s, want %s", what, i+1, call, got, want)
				}
			}
		}
	}
	is("published", "ann")
	if r, err := s.registry.Get(ctx, name); err != nil || r.Latest != 1 || r.Candidate != nil {
		t.Errorf("the script is %+v, %v", r, err)
	}
	publish(own, `function handle(r) return {metadata = {by = "again"}} end`, script.Spec{Personal: mine})
	is("published again", "again")
	s.agents = append(s.agents, s.join(len(s.agents)+1))
	s.awaitAnswer(len(s.agents)-1, `{"metadata":{"by":"live"}}`)
	is("an agent has joined", "again")
	if _, err := s.registry.Delete(ctx, own, by); err != nil {
		t.Fatal(err)
	}
	for i := range s.agents { // a deletion has no status to wait for
		for end := time.Now().Add(patience); s.personally(i, "with a key", key) != `{"metadata":{"by":"live"}}` && time.Now().Before(end); {
			runtime.Gosched()
		}
	}
	is("deleted", "live")
}

// personally makes a call of agent i, and returns what it answers, in short.
func (s *stack) personally(i int, call, key string) string {
	ctx, client, ref := s.t.Context(), s.agents[i], name.String()
	switch call {
	case "with a key":
		ctx = agentclient.ContextWithKey(ctx, key)
	case "with another key":
		ctx = agentclient.ContextWithKey(ctx, key+"x")
	case "a version with a key":
		ctx, ref = agentclient.ContextWithKey(ctx, key), ref+"@1"
	case "the personal version":
		ref = script.PersonalName(name, "ann").String()
	case "by name":
	default:
		return s.decided(i, call, key)
	}
	result, err := client.Call(ctx, ref, json.RawMessage(`{}`))
	if err != nil {
		return err.Error()
	}
	return string(result.Values[0])
}

// decided asks agent i for a decision over HTTP, and returns the metadata that scripts gave.
func (s *stack) decided(i int, call, key string) string {
	target, header := "/v1/decide/acme/route", ""
	switch call {
	case "decide with a key":
		header = key
	case "an event":
		target = "/v1/decide/event=pre-route/acme"
	case "an event with a key":
		target, header = "/v1/decide/event=pre-route/acme", key
	case "an event with another":
		target, header = "/v1/decide/event=pre-route/acme", key+"x"
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(s.AgentDir(i+1), "http.sock"))
	}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://agent"+target+"/cart", http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	if header != "" {
		req.Header.Set("X-Dev", header)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	var metadata map[string]string
	_ = json.Unmarshal([]byte(resp.Header.Get("Scriptorium-Metadata")), &metadata)
	text := metadata["by"]
	if metadata["first"] == "yes" {
		text += " first"
	}
	if resp.StatusCode != http.StatusOK || text == "" {
		return resp.Status
	}
	return text
}
