package agent_test

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/ssh"

	"github.com/scriptorium-dev/scriptorium/agent"
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/script"
)

// trustOf returns what trusts the keys with the numbers for the tenant acme.
func trustOf(t *testing.T, numbers ...byte) *publisher.Trust {
	t.Helper()
	var keys []string
	for _, number := range numbers {
		public, err := ssh.NewPublicKey(publicOf(number))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public))))
	}
	list, err := json.Marshal(keys)
	if err != nil {
		t.Fatal(err)
	}
	trust, err := publisher.ParseTrust(fmt.Appendf(nil, "publishers: [{tenants: [acme], keys: %s}]", list))
	if err != nil {
		t.Fatal(err)
	}
	return trust
}

// by signs the version of the release.
func by(t *testing.T, private ed25519.PrivateKey, r *script.Release, v script.Version) script.Version {
	t.Helper()
	signer, err := publisher.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	if v.Signature, err = publisher.Sign(t.Context(), publisher.StatementOf(r.Name, v, r.Settings.Spec), signer); err != nil {
		t.Fatal(err)
	}
	return v
}

// next gives the release another version of the source, which is active.
func next(r *script.Release, source string) script.Version {
	r.Latest++
	return script.Version{Number: r.Latest, Digest: script.DigestOf([]byte(source)), Engine: "echo", Size: len(source)}
}

func activate(r *script.Release, v script.Version) {
	r.Active, r.Candidate = v, nil
	r.Retained = append(slices.DeleteFunc(slices.Clone(r.Retained), func(w script.Version) bool { return w.Number == v.Number }), v)
}

// set makes a release what change makes of it, and has agents get the source.
func (r *registry) set(name string, change func(rel *script.Release), source string) script.Revision {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.head++
	rel := r.releases[name]
	rel.Name, _ = script.ParseName(name)
	rel.Enabled = true
	change(&rel)
	rel.Revision = script.Revision(r.head)
	r.releases[name] = rel
	r.sources[script.DigestOf([]byte(source))] = []byte(source)
	r.announce(script.Object{Release: &rel}, []byte(source))
	return rel.Revision
}

// publishSigned publishes a source as the key's owner does.
func (r *registry) publishSigned(name, source string, private ed25519.PrivateKey) {
	r.t.Helper()
	r.set(name, func(rel *script.Release) {
		activate(rel, next(rel, source))
		activate(rel, by(r.t, private, rel, rel.Active))
	}, source)
}

// forgeries are what the owner of a registry, of its signing key and of NATS may try.
func forgeries(t *testing.T) map[string]func(rel *script.Release, source string) {
	t.Helper()
	return map[string]func(rel *script.Release, source string){
		"unsigned": func(rel *script.Release, source string) { activate(rel, next(rel, source)) },
		"signed by the registry's own key": func(rel *script.Release, source string) {
			activate(rel, by(t, keyOf(1), rel, next(rel, source)))
		},
		"with the signature of the version before": func(rel *script.Release, source string) {
			v := next(rel, source)
			v.Signature = rel.Active.Signature
			activate(rel, v)
		},
		"with a signature of another script": func(rel *script.Release, source string) {
			other := *rel
			other.Name.Script = "other"
			v := by(t, keyOf(7), &other, next(rel, source))
			activate(rel, v)
		},
		"under the number of the signed version": func(rel *script.Release, source string) {
			v := rel.Active
			v.Digest, v.Size = script.DigestOf([]byte(source)), len(source)
			activate(rel, v)
		},
		"as a candidate": func(rel *script.Release, source string) {
			v := next(rel, source)
			rel.Retained = append(slices.Clone(rel.Retained), v)
			rel.Candidate = &script.Candidate{Version: v, Attempt: uint64(rel.Revision) + 1, Step: 1, Threshold: math.MaxUint32, Percent: 99}
		},
		"with another config": func(rel *script.Release, _ string) {
			rel.Settings.Config = json.RawMessage(`{"upstream":"evil"}`)
		},
	}
}

// TestSignatures: who owns the registry, its signing key and NATS cannot run one line of
// theirs of a tenant that requires signatures. What its publisher signs runs.
func TestSignatures(t *testing.T) {
	t.Parallel()
	for what, forge := range forgeries(t) {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			r.publishSigned("acme/route", "good", keyOf(7))
			r.start()
			dir := t.TempDir()
			roots := publisher.NewRoots(trustOf(t, 7))
			requiring := func(cfg *agent.Config) { cfg.Publishers = roots }
			n := startNode(t, r, dir, requiring)
			n.answers(t, r, "acme/route", "good")

			// The event.
			r.set("acme/route", func(rel *script.Release) { forge(rel, "forged") }, "forged")
			r.publish("shop/mark", "came after")
			n.answers(t, r, "shop/mark", "came after")
			n.refuses(t)
			n.stop()

			// The disk, and with nothing else up.
			r.stop()
			n = startNode(t, r, dir, requiring)
			n.refuses(t)
			n.stop()

			// The snapshot.
			r.start()
			fresh := startNode(t, r, t.TempDir(), requiring)
			fresh.answers(t, r, "shop/mark", "came after")
			if got, err := fresh.call(t, "acme/route"); err == nil {
				t.Errorf("from a snapshot: %q", got)
			}
			fresh.stop()

			// A disk that somebody wrote who needs no signatures.
			dir = t.TempDir()
			open := startNode(t, r, dir)
			open.answers(t, r, "shop/mark", "came after")
			open.stop()
			r.stop()
			n = startNode(t, r, dir, requiring)
			for _, ref := range []string{"acme/route", "acme/route@2"} {
				if got, err := n.call(t, ref); err == nil {
					t.Errorf("%s from a disk that others wrote: %q", ref, got)
				}
			}
			r.start()
			r.publishSigned("acme/route", "better", keyOf(7))
			n.answers(t, r, "acme/route", "better")
		})
	}
}

// refuses checks that the good version alone runs.
func (n *node) refuses(t *testing.T) {
	t.Helper()
	if got, err := n.call(t, "acme/route"); err != nil || got != "good" {
		t.Errorf("acme/route: %q, %v; want good", got, err)
	}
	if got, err := n.call(t, "acme/route@2"); err == nil {
		t.Errorf("acme/route@2: %q", got)
	}
}

// TestSignaturesOfRetainedVersions: a version that a call names needs its signature as well,
// and what the publisher signs replaces what was refused.
func TestSignaturesOfRetainedVersions(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.publish("route", "of before")
	r.publishSigned("acme/route", "good", keyOf(7))
	r.start()
	n := startNode(t, r, t.TempDir(), func(cfg *agent.Config) { cfg.Publishers = publisher.NewRoots(trustOf(t, 7)) })
	n.answers(t, r, "acme/route", "good")
	n.answers(t, r, "acme/route@2", "good")
	if _, err := n.call(t, "acme/route@1"); script.KindOf(err) != script.Denied || !strings.Contains(err.Error(), "version 1 of acme/route is not signed") {
		t.Errorf("acme/route@1: %v", err)
	}
}

// TestWhatRetainedVersionsRunWithIsSigned: a signed version that a call names does not run with a
// config that nobody has signed, whatever digest the registry says that it has.
func TestWhatRetainedVersionsRunWithIsSigned(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	specOf := func(config string) script.Spec { return script.Spec{Config: json.RawMessage(config)} }
	for config, ran := range map[string]string{`{"n":1}`: `{"n":1}`, `{"n":2}`: `{"n":1}`, `{"n":3}`: `{"n":"evil"}`} {
		name := "acme/n" + config[5:6]
		for i, signed := range []string{config, `{"n":1}`} {
			source := fmt.Sprint(name, i)
			r.set(name, func(rel *script.Release) {
				rel.Settings.Spec = specOf(signed)
				v := by(t, keyOf(7), rel, next(rel, source))
				if i == 0 { // what the registry says of it
					v = v.With(specOf(ran))
				} else {
					v = v.With(specOf(`{"other":"document"}`))
				}
				activate(rel, v)
			}, source)
			document := specOf(ran).Document()
			r.sources[script.DigestOf(document)] = document
		}
	}
	r.start()
	n := startNode(t, r, t.TempDir(), func(cfg *agent.Config) { cfg.Publishers = publisher.NewRoots(trustOf(t, 7)) })
	for _, name := range []string{"acme/n1", "acme/n2", "acme/n3"} {
		n.answers(t, r, name, name+"1")
	}
	// The second is as a registry of before leaves it: with what another version was signed with.
	for _, ref := range []string{"acme/n1@1", "acme/n2@1"} {
		n.answers(t, r, ref, ref[:len("acme/n1")]+"0")
	}
	for range 2 {
		if got, err := n.call(t, "acme/n3@1"); script.KindOf(err) != script.Denied || !strings.Contains(err.Error(), "config") {
			t.Errorf("with a config that nobody has signed: %q, %v", got, err)
		}
	}
}

// TestPublishersAreReplaced: what was refused goes live when its key is trusted, and what is
// live stays so, and is named, when its key no longer is.
func TestPublishersAreReplaced(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.publishSigned("acme/old", "old", keyOf(7))
	r.publishSigned("acme/new", "new", keyOf(8))
	r.start()
	dir := t.TempDir()
	roots := publisher.NewRoots(trustOf(t, 7))
	metrics := prometheus.NewRegistry()
	n := startNode(t, r, dir, func(cfg *agent.Config) { cfg.Publishers, cfg.Metrics = roots, metrics })
	n.answers(t, r, "acme/old", "old")
	if got, err := n.call(t, "acme/new"); err == nil {
		t.Errorf("acme/new, by a key that is not trusted: %q", got)
	}
	roots.Replace(trustOf(t, 8))
	n.PublishersChanged()
	n.answers(t, r, "acme/new", "new")
	n.answers(t, r, "acme/old", "old")
	if got := untrusted(t, metrics); got != 1 {
		t.Errorf("scripts whose key is not trusted any more: %v, want 1", got)
	}
	n.stop()
	n = startNode(t, r, dir, func(cfg *agent.Config) { cfg.Publishers = roots })
	n.answers(t, r, "acme/new", "new")
	if got, err := n.call(t, "acme/old"); err == nil {
		t.Errorf("acme/old after a restart: %q", got)
	}
	r.publishSigned("acme/old", "old, signed again", keyOf(8))
	n.answers(t, r, "acme/old", "old, signed again")
}

// TestUntrustedIsWhatIsNotLoadedAgain: what is named is what the next start refuses, also if it
// is the settings that nobody has signed whose key is trusted.
func TestUntrustedIsWhatIsNotLoadedAgain(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	for _, name := range []string{"acme/sound", "acme/rolled"} {
		settings := func(rel *script.Release, config string) {
			rel.Settings.Config, rel.Settings.Tests = json.RawMessage(config), expecting(`1`)
		}
		r.set(name, func(rel *script.Release) {
			settings(rel, `{"of":1}`)
			activate(rel, by(t, keyOf(8), rel, next(rel, "1")))
		}, "1")
		r.set(name, func(rel *script.Release) {
			first := rel.Active
			if name == "acme/rolled" {
				settings(rel, `{"of":2}`)
			}
			activate(rel, by(t, keyOf(7), rel, next(rel, "2")))
			rel.Active = first
		}, "2")
	}
	r.start()
	dir := t.TempDir()
	roots := publisher.NewRoots(trustOf(t, 7, 8))
	metrics := prometheus.NewRegistry()
	n := startNode(t, r, dir, func(cfg *agent.Config) { cfg.Publishers, cfg.Metrics = roots, metrics })
	n.answers(t, r, "acme/sound", "1")
	n.answers(t, r, "acme/rolled", "1")
	for _, tt := range []struct {
		keys []byte
		want float64
	}{{[]byte{7, 8}, 0}, {[]byte{8}, 1}, {[]byte{7}, 2}, {[]byte{8}, 1}} {
		roots.Replace(trustOf(t, tt.keys...))
		n.PublishersChanged()
		if got := untrusted(t, metrics); got != tt.want {
			t.Errorf("with the keys %v: %v scripts would not be loaded again, want %v", tt.keys, got, tt.want)
		}
	}
	n.stop()
	n = startNode(t, r, dir, func(cfg *agent.Config) { cfg.Publishers = roots })
	n.answers(t, r, "acme/sound", "1")
	if got, err := n.call(t, "acme/rolled"); err == nil {
		t.Errorf("acme/rolled after a restart: %q", got)
	}
}

// TestRefusedOnDiskAndDeleted: what is on disk and refused goes when the registry has it no
// more.
func TestRefusedOnDiskAndDeleted(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.publish("route", "unsigned")
	r.publish("shop/mark", "one")
	r.start()
	dir := t.TempDir()
	n := startNode(t, r, dir)
	n.answers(t, r, "acme/route", "unsigned")
	n.answers(t, r, "shop/mark", "one")
	n.stop()
	path := filepath.Join(dir, "releases", "acme", "route")
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "cursor")); err != nil { // so that the agent asks for all there is
		t.Fatal(err)
	}
	r.mu.Lock()
	delete(r.releases, "acme/route")
	r.mu.Unlock()
	n = startNode(t, r, dir, func(cfg *agent.Config) { cfg.Publishers = publisher.NewRoots(trustOf(t, 7)) })
	eventually(t, r, "the refused release is gone from disk", func() bool {
		_, err := os.Stat(path)
		return errors.Is(err, fs.ErrNotExist)
	})
	n.is(t, "shop/mark", "one")
}

// untrusted returns how many live scripts would not be loaded again.
func untrusted(t *testing.T, metrics *prometheus.Registry) float64 {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "scriptorium_agent_untrusted_scripts" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}
