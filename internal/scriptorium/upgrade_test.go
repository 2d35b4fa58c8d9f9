package scriptorium_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/embedded/etcdtest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// edition is what software before fleets were founded has left: the keys of etcd, and the
// state folder of an agent. Made by that software with two versions of acme/route, acme/pinned
// pinned to version 1, shop/off disabled, shop/gone deleted, the value acme/flag and settings
// of acme.
type edition struct {
	SigningKey string `json:"signingKey"`
	PublicKey  string `json:"publicKey"`
	Etcd       []struct {
		Key      string `json:"key"`
		Value    []byte `json:"value"`
		Revision int64  `json:"revision"`
	} `json:"etcd"`
	State map[string]struct {
		Content []byte `json:"content"`
		Size    int    `json:"size"` // with the zeros that follow
	} `json:"state"`
}

// restore puts everything where it was, at etcd's revisions, and returns the paths of the
// keys.
func (e edition) restore(t *testing.T, m *mistaken) (signing, trusted string) {
	t.Helper()
	client := etcdtest.Client(t, m.etcd.Endpoint())
	now, err := client.Get(t.Context(), "/padding")
	if err != nil {
		t.Fatal(err)
	}
	for i, at := 0, now.Header.Revision+1; i < len(e.Etcd); at++ {
		ops := []clientv3.Op{clientv3.OpPut("/padding", "")} // etcd counts each transaction
		for ; i < len(e.Etcd) && e.Etcd[i].Revision == at; i++ {
			ops = append(ops, clientv3.OpPut(e.Etcd[i].Key, string(e.Etcd[i].Value)))
		}
		if resp, err := client.Txn(t.Context()).Then(ops...).Commit(); err != nil || resp.Header.Revision != at {
			t.Fatalf("etcd is at %v, want %d: %v", resp, at, err)
		}
	}
	for name, file := range e.State {
		path := filepath.Join(m.dir, "state", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		content := make([]byte, file.Size)
		copy(content, file.Content)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	signing, trusted = filepath.Join(m.dir, "signing.key"), filepath.Join(m.dir, "trusted.pem")
	if err := errors.Join(os.WriteFile(signing, []byte(e.SigningKey), 0o600), os.WriteFile(trusted, []byte(e.PublicKey), 0o600)); err != nil {
		t.Fatal(err)
	}
	return signing, trusted
}

// TestUpgrade: registries and agents take over what the software before them has left. The
// agent answers from its folder before it reaches a registry.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/edition-2026-11.json")
	if err != nil {
		t.Fatal(err)
	}
	var e edition
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	m := startMistaken(t)
	key, trusted := e.restore(t, m)
	want := map[string]string{"acme/route": "two x", "acme/pinned": "one x", "shop/off": string(script.Disabled), "shop/gone": string(script.NotFound)}
	answer := func(name string) string {
		result, err := m.caller.Call(t.Context(), name, "x")
		if err != nil {
			return string(script.KindOf(err))
		}
		return strings.Trim(string(result.Values[0]), `"`)
	}
	check := func(when string) {
		t.Helper()
		for name, text := range want {
			if got := answer(name); got != text {
				t.Errorf("%s, %s answers %q, want %q", when, name, got, text)
			}
		}
	}
	m.agent = run(t, "agentd", []string{
		"--name", "node", "--registry", m.registry, "--nats-url", m.nats.URL(), "--admin-address", m.page,
		"--socket-dir", m.dir, "--state-dir", filepath.Join(m.dir, "state"), "--trusted-key", trusted, "--insecure-plaintext",
	})
	m.awaitPage(m.page, http.StatusOK, "the registry was not heard since the start")
	check("before a registry starts")
	m.process = run(t, "registryd", []string{
		"--listen", m.registry, "--admin-address", m.admin, "--etcd-endpoints", m.etcd.Endpoint(), "--nats-url", m.nats.URL(),
		"--signing-key", key, "--insecure-anonymous", "--insecure-plaintext",
	})
	m.awaitPage(m.admin, http.StatusOK, `"ready":true`)
	m.publish("function handle(name) return 'three ' .. name end")
	want["acme/route"] = "three x"
	await(t, "a change goes live", func() bool { return answer("acme/route") == "three x" })
	check("after a publish")
	await(t, "the registry knows the agent, which reports in a session", func() bool {
		for a, err := range m.client.Agents(t.Context(), false) {
			if err == nil && a.Name == "node" && !a.Unknown && a.Behind == 0 {
				return true
			}
		}
		return false
	})

	for f, err := range m.client.Doctor(t.Context(), registryclient.DoctorOptions{}) {
		t.Errorf("the doctor finds %+v, %v", f, err)
	}
	tenant, err := m.client.Tenant(t.Context(), "acme")
	if err != nil || tenant.Settings.Concurrency != 7 {
		t.Errorf("the settings of acme: %+v, %v", tenant, err)
	}
	lines, err := m.client.History(t.Context(), script.Name{Tenant: "acme", Script: "pinned"})
	if err != nil || len(lines) != 3 || lines[0].Change != script.ChangePin {
		t.Errorf("the history of acme/pinned: %+v, %v", lines, err)
	}
	if _, _, err := m.client.LiftHold(t.Context(), script.Name{Tenant: "acme", Script: "pinned"}, registryclient.Write{Author: "test"}); script.KindOf(err) != script.NotFound {
		t.Errorf("a pin of before is no hold: %v", err)
	}
	newest, err := m.client.Source(t.Context(), script.Ref{Name: script.Name{Tenant: "acme", Script: "pinned"}, Version: 2})
	if err != nil {
		t.Fatal(err)
	}
	unpinned, err := m.client.Publish(t.Context(), registryclient.PublishRequest{
		Name: script.Name{Tenant: "acme", Script: "pinned"}, Source: newest.Source, Pin: new(uint64(0)), Write: registryclient.Write{Author: "test"},
	})
	if err != nil || unpinned.Version.Number != 2 || unpinned.Release.Pinned {
		t.Errorf("published without the pin: %+v, %v", unpinned, err)
	}
	want["acme/pinned"] = "two x"
	await(t, "the unpinned one goes live", func() bool { return answer("acme/pinned") == "two x" })
	check("after that")

	// What the versions of before run with stays what it was.
	name := script.Name{Tenant: "acme", Script: "pinned"}
	_, err = m.client.Publish(t.Context(), registryclient.PublishRequest{
		Name: name, Source: []byte("function handle(name) return config.text .. name end"), Write: registryclient.Write{Author: "test"},
		Settings: &script.Settings{Spec: script.Spec{Config: json.RawMessage(`{"text":"three "}`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "a config of its own", func() bool { return answer("acme/pinned") == "three x" })
	if _, _, err := m.client.Rollback(t.Context(), name, 0, registryclient.Write{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	await(t, "the version of before is back", func() bool { return answer("acme/pinned") == "two x" })
	if got := answer("acme/pinned@3"); got != "three x" {
		t.Errorf("version 3 answers %q", got)
	}
	for number, config := range map[uint64]string{1: "", 2: "", 3: `{"text":"three "}`} {
		if e, err := m.client.Source(t.Context(), script.Ref{Name: name, Version: number}); err != nil || string(e.Spec.Config) != config {
			t.Errorf("version %d: %s, %v", number, e.Spec.Config, err)
		}
	}
}
