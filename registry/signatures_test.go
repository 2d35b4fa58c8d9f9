package registry_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

func keyOf(number byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{number}, ed25519.SeedSize))
}

// requiring is a bench whose registry wants versions of acme signed by the keys.
func requiring(t *testing.T, keys ...crypto.Signer) (*bench, *publisher.Roots) {
	t.Helper()
	roots := publisher.NewRoots(trusting(t, keys...))
	b := &bench{t: t, store: memstore.New(), checker: &checker{}}
	b.Registry = registry.New(registry.Config{Store: b.store, Engines: map[string]engine.Checker{"lua": b.checker}, Publishers: roots})
	return b, roots
}

func trusting(t *testing.T, keys ...crypto.Signer) *publisher.Trust {
	t.Helper()
	lines := make([]string, 0, len(keys))
	for _, k := range keys {
		public, err := ssh.NewPublicKey(k.Public())
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public))))
	}
	list, err := json.Marshal(lines)
	if err != nil {
		t.Fatal(err)
	}
	trust, err := publisher.ParseTrust(fmt.Appendf(nil, "publishers: [{tenants: [acme], keys: %s}]", list))
	if err != nil {
		t.Fatal(err)
	}
	return trust
}

// signed signs what is published, which it gives settings.
func signed(t *testing.T, private crypto.Signer) func(*registry.PublishRequest) {
	t.Helper()
	return func(r *registry.PublishRequest) {
		if r.Settings == nil {
			r.Settings = &script.Settings{}
		}
		by, err := publisher.NewSigner(private)
		if err != nil {
			t.Fatal(err)
		}
		v := script.Version{Digest: script.DigestOf(r.Source), Engine: "lua", Entrypoint: r.Entrypoint}
		if r.Signature, err = publisher.Sign(t.Context(), publisher.StatementOf(r.Name, v, r.Settings.Spec), by); err != nil {
			t.Fatal(err)
		}
	}
}

func config(text string) func(*registry.PublishRequest) {
	return settings(script.Settings{Spec: script.Spec{Config: json.RawMessage(text)}})
}

func refused(t *testing.T, what string, err error, kind script.Kind, field string) {
	t.Helper()
	if script.KindOf(err) != kind || script.AsError(err).Field != field {
		t.Errorf("%s: %v; want %s of %s", what, err, kind, field)
	}
}

func TestPublishOfATenantThatRequiresSignatures(t *testing.T) {
	key := keyOf(1)
	b, _ := requiring(t, key)
	_, err := b.tryPublish("one")
	refused(t, "unsigned", err, script.Denied, "signature")
	_, err = b.tryPublish("one", signed(t, keyOf(2)))
	refused(t, "by a stranger", err, script.Denied, "signature")
	_, err = b.tryPublish("one", signed(t, key), func(r *registry.PublishRequest) { r.Source = []byte("two") })
	refused(t, "of another source", err, script.Invalid, "signature")
	_, err = b.tryPublish("one", signed(t, key), config(`{"a":1}`))
	refused(t, "of another config", err, script.Invalid, "signature")
	_, err = b.tryPublish("one", signed(t, key), func(r *registry.PublishRequest) { r.Settings = nil })
	refused(t, "without settings", err, script.Invalid, "settings")
	_, err = b.tryPublish("one", func(r *registry.PublishRequest) { r.Signature = "{}" })
	refused(t, "without settings", err, script.Invalid, "settings")

	r := b.publish("one", config(`{"a": 1}`), signed(t, key)).Release
	if r.Active.Signature == "" || r.Retained[0].Signature != r.Active.Signature {
		t.Errorf("the release does not have the signature: %+v", r)
	}
	_, err = b.configure(write(route), script.Settings{})
	refused(t, "other settings", err, script.Denied, "signature")
	if _, err := b.SetEnabled(t.Context(), registry.SetEnabledRequest{Write: write(route)}); err != nil {
		t.Errorf("disable: %v", err)
	}
	if _, err := b.tryPublish("one", func(r *registry.PublishRequest) { r.Name.Tenant = "shop" }); err != nil {
		t.Errorf("of a tenant that requires none: %v", err)
	}
}

// TestSignWhatIsThere: a signature for the source of the newest version becomes that
// version's. The same publish again changes nothing.
func TestSignWhatIsThere(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b, roots := requiring(t, private)
	trust := roots.Trust()
	roots.Replace(nil)
	b.publish("zero")
	b.publish("one", settings(script.Settings{}))
	roots.Replace(trust)
	_, err = b.Pin(t.Context(), registry.PinRequest{Write: write(route), Version: 1})
	refused(t, "pin of an unsigned version", err, script.Denied, "signature")
	if _, err := b.SetEnabled(t.Context(), registry.SetEnabledRequest{Write: write(route)}); err != nil {
		t.Errorf("disable what is not signed: %v", err)
	}

	first := b.publish("one", signed(t, private))
	if r := first.Release; !first.Changed || r.Active.Number != 2 || r.Active.Signature == "" || first.Version.Signature != r.Active.Signature {
		t.Errorf("signed: %+v", first)
	}
	if v, err := b.store.Version(t.Context(), route, 2); err != nil || v.Signature != first.Release.Active.Signature || v.Author != "ann" {
		t.Errorf("the version beside its source: %v, %+v", err, v)
	}
	past, err := b.History(t.Context(), everybody, route)
	if err != nil || past[0].Change != script.ChangeSign {
		t.Errorf("history: %v, %+v", err, past)
	}
	if again := b.publish("one", signed(t, private)); again.Changed {
		t.Errorf("signed again by the same key: %+v", again)
	}
	roots.Replace(trusting(t, private, keyOf(1)))
	if by := b.publish("one", signed(t, keyOf(1))); !by.Changed || by.Release.Active.Signature == first.Release.Active.Signature {
		t.Errorf("signed by another key: %+v", by)
	}
	if r := b.get(); roots.Trust().Release(&r) != nil || len(r.Retained) != 2 {
		t.Errorf("%+v", r)
	}
}

// TestABrokenSignatureIsReplaced: one that names the right key, and is not of it, gives way to
// the key's.
func TestABrokenSignatureIsReplaced(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for what, key := range map[string]crypto.Signer{"Ed25519": keyOf(1), "P-256": private} {
		b, roots := requiring(t, key)
		trust := roots.Trust()
		roots.Replace(nil) // a registry need not have the keys
		garbage := func(r *registry.PublishRequest) {
			var envelope map[string]any
			if err := json.Unmarshal([]byte(r.Signature), &envelope); err != nil {
				t.Fatal(err)
			}
			envelope["signatures"].([]any)[0].(map[string]any)["sig"] = "AAAA"
			text, err := json.Marshal(envelope)
			if err != nil {
				t.Fatal(err)
			}
			r.Signature = string(text)
		}
		b.publish("one", signed(t, key), garbage)
		if got := b.publish("one", signed(t, key)); !got.Changed || trust.Release(&got.Release) != nil {
			t.Errorf("%s: the right signature leaves %+v", what, got)
		}
		if again := b.publish("one", signed(t, key)); again.Changed {
			t.Errorf("%s: signed again by the same key: %+v", what, again)
		}
	}
}

// TestArchivesKeepSignatures: and what is not signed is not imported.
func TestArchivesKeepSignatures(t *testing.T) {
	key := keyOf(1)
	b, roots := requiring(t, key)
	b.publish("one", signed(t, key))
	b.publish("two", config(`{"a":1}`), signed(t, key))
	items, err := b.export(everybody, "")
	if err != nil {
		t.Fatal(err)
	}
	into, _ := requiring(t, key)
	if _, err := into.Import(t.Context(), importing(everybody), from(items)); err != nil {
		t.Fatal(err)
	}
	r := into.get()
	if err := roots.Trust().Release(&r); err != nil || r.Retained[0].Signature == "" {
		t.Errorf("imported: %v, %+v", err, r)
	}
	strict, _ := requiring(t, keyOf(2))
	_, err = strict.Import(t.Context(), importing(everybody), from(items))
	refused(t, "signed by a key that is not trusted here", err, script.Denied, "signature")
}
