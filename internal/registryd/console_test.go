package registryd_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"os"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
)

// TestConsole: people whom the policy knows sign in to the console, and act as whom their tokens are of. Nobody acts as the
// registry's own user.
func TestConsole(t *testing.T) {
	const token = "a-token-of-ann-that-is-long-enough"
	cfg := config(t, startNATS(t, 0).URL())
	cfg.Console.Listen = "127.0.0.1:0"
	cfg.Security = registryd.Security{InsecureUnsigned: true, InsecurePlaintext: true, AccessPolicy: file(t, "policy.yaml", fmt.Sprintf(
		"subjects:\n- {name: ann, tokens: ['sha256:%x'], grants: [{roles: [read], tenants: [acme]}]}\n- {name: self, uids: [%d], grants: [{roles: [admin], tenants: ['*']}]}\n",
		sha256.Sum256([]byte(token)), os.Getuid()))}
	d, _ := start(t, cfg)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Transport: &http.Transport{}}
	signIn := func(secret string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.ConsoleURL()+"/session", strings.NewReader(secret))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	for _, secret := range []string{`{"token":"another-token-that-is-long-enough"}`, `{"code":"AAAA-AAAA"}`, `{"code":" "}`, `{}`} {
		if got := signIn(secret); got != http.StatusUnauthorized && got != http.StatusBadRequest {
			t.Errorf("%s: %d", secret, got)
		}
	}
	if got := signIn(`{"token":"` + token + `"}`); got != http.StatusNoContent {
		t.Fatalf("a token of the policy: %d", got)
	}
	client := connect.NewClient[registryv1.CheckRequest, registryv1.CheckResponse](browser, d.ConsoleURL()+"/scriptorium.registry.v1.Registry/Check")
	me, err := client.CallUnary(t.Context(), connect.NewRequest(&registryv1.CheckRequest{}))
	if err != nil || me.Msg.GetCaller() != "ann" {
		t.Errorf("%v, %v: want ann", me, err)
	}
	if _, metrics := admin(t, d, "/metrics"); !strings.Contains(metrics, "scriptorium_console_sessions 1\n") || !strings.Contains(metrics, `scriptorium_console_sign_ins_total{result="refused",way="token"} 1`) {
		t.Errorf("the metrics do not have the session:\n%s", metrics)
	}
}
