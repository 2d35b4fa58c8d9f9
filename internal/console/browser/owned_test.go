package browser_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/console/browser"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestOwned checks that the editor of an owned script names the owner, offers the YAML for there, and publishes nothing over it.
func TestOwned(t *testing.T) {
	w := start(t, 1)
	_, err := w.Registry.Publish(t.Context(), registryclient.PublishRequest{
		Name: script.Name{Tenant: "acme", Script: "route"}, Source: []byte(router),
		Write: registryclient.Write{Author: "operator", Owner: "script/default/route"},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := w.open(t, "/script/?name=acme%2Froute")
	p.See("The Kubernetes object Script default/route owns this script.")
	p.Replace("Source of acme/route", router+"\n-- mine\n")
	p.See("with changes that are not published")
	p.Click("button", "Show the YAML")
	p.Wait("the YAML with the change", "/kind: Script[^]*-- mine/.test(document.querySelector('[aria-label=\"YAML of the draft\"]')?.value)")
	p.Replace("Source of acme/route", router+"\n-- mine, too\n")
	p.Wait("no YAML of the draft before", "!document.querySelector('[aria-label=\"YAML of the draft\"]')")
	p.Click("button", "Publish…")
	p.See(`belongs to "script/default/route"`)
	if got := w.source(t, "route"); got != router {
		t.Errorf("the owner's script is now\n%s", got)
	}
}

// startWithPolicy starts a world in which ann only reads, with a token, and whoever runs the test is an administrator.
func startWithPolicy(t *testing.T) (w *world, token string) {
	t.Helper()
	token = "a-token-of-thirty-two-characters"
	policy := fmt.Sprintf("subjects:\n- {name: ann, tokens: ['sha256:%x'], grants: [{roles: [read], tenants: [acme]}]}\n- {name: self, uids: [%d], grants: [{roles: [admin], tenants: ['*']}]}\n",
		sha256.Sum256([]byte(token)), os.Getuid())
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, 1, local.WithRegistry(func(cfg *registryd.Config) { cfg.Security.AccessPolicy = file })), token
}

// TestReader checks what a person sees without the right to publish: the script, and why it cannot be checked, tried and published.
func TestReader(t *testing.T) {
	w, token := startWithPolicy(t)
	w.publish(t, "route", router)
	p := browser.Start(t).Open(t)
	p.Go(w.url + "/script/?name=acme%2Froute")
	p.See("The code that the console printed")
	p.Forgive() // the calls before
	p.Click("checkbox", "a token")
	p.Fill("Your token for the registry", token)
	p.Click("button", "Sign in")
	p.See("ann")
	p.Replace("Source of acme/route", "-- ann\n"+router)
	p.See("Not checked")
	p.Click("button", "Publish…")
	p.Wait("why it cannot be published", "document.querySelector('dialog[open]')?.innerText.includes('has no role publish')")
	p.Click("button", "Cancel")
	p.Click("button", "Run")
	p.Wait("why it does not run", "document.body.innerText.split('has no role publish').length > 2")
	p.Click("button", "Drop changes")
	p.See("Version 1.")
	p.Click("link", "Access")
	p.See("What you can do")
	p.See("read")
	p.Miss("self") // nothing about others
}

// TestPolicy checks that an administrator sees who can do what.
func TestPolicy(t *testing.T) {
	w, _ := startWithPolicy(t)
	p := w.open(t, "/access/")
	p.See("2 in the policy")
	p.See("read for acme")
	p.See("1 token")
	p.Fill("Search", "admin")
	p.See("1 in the policy")
	p.Miss("read for acme")
	p.Fill("Search", "nobody at all")
	p.See("Nobody matches.")
}
