package publisher_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"golang.org/x/crypto/ssh"

	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/script"
)

var name = script.Name{Tenant: "acme", Script: "route"}

func newVersion(number uint64, source string) script.Version {
	return script.Version{Number: number, Digest: script.DigestOf([]byte(source)), Engine: "lua", Entrypoint: "handle", Size: len(source)}
}

func settings() script.Settings {
	return script.Settings{
		Spec: script.Spec{
			Config:    json.RawMessage(`{"upstream":"a"}`),
			Limits:    script.Limits{Timeout: time.Second},
			Trigger:   script.Trigger{Event: "http-request", Match: script.Match{Hosts: []string{"a"}}},
			Decisions: &script.Decisions{Sample: 0.5, Mask: []string{"body"}},
			OnError:   script.OnError{Status: 429, Body: strings.Repeat("x", script.MaxOnErrorBodyBytes)},
			Tests:     []script.Test{{Name: "t", Request: json.RawMessage(`{"a":1}`), Expect: json.RawMessage(`{}`)}},
		},
	}
}

func ed25519Key(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return private
}

func p256(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return private
}

func signer(tb testing.TB, private crypto.Signer) *publisher.Signer {
	tb.Helper()
	s, err := publisher.NewSigner(private)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func signed(tb testing.TB, by *publisher.Signer, n script.Name, v script.Version, s script.Settings) script.Version {
	tb.Helper()
	signature, err := publisher.Sign(tb.Context(), publisher.StatementOf(n, v, s.Spec), by)
	if err != nil {
		tb.Fatal(err)
	}
	v.Signature = signature
	return v
}

// openSSH returns the public key as a line.
func openSSH(tb testing.TB, public crypto.PublicKey) string {
	tb.Helper()
	known, err := ssh.NewPublicKey(public)
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(known)))
}

func pkix(t *testing.T, public crypto.PublicKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func trusting(tb testing.TB, tenant string, keys ...string) *publisher.Trust {
	tb.Helper()
	list, err := json.Marshal(keys) // JSON is YAML
	if err != nil {
		tb.Fatal(err)
	}
	trust, err := publisher.ParseTrust(fmt.Appendf(nil, "publishers:\n  - tenants: [%q]\n    keys: %s\n", tenant, list))
	if err != nil {
		tb.Fatal(err)
	}
	return trust
}

// TestKeys: each kind of key that a file may hold signs, and both forms of its public half
// verify.
func TestKeys(t *testing.T) {
	const password = "correct horse"
	ed, ec := ed25519Key(t), p256(t)
	pkcs8 := func(private any) []byte {
		der, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	secret, err := encrypted.Encrypt(pkcs8(ec), []byte(password))
	if err != nil {
		t.Fatal(err)
	}
	block := func(b *pem.Block, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(b)
	}
	for what, tt := range map[string]struct {
		private []byte
		public  crypto.PublicKey
	}{
		"PKCS #8, Ed25519":            {block(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8(ed)}, nil), ed.Public()},
		"PKCS #8, P-256":              {block(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8(ec)}, nil), ec.Public()},
		"OpenSSH, Ed25519":            {block(ssh.MarshalPrivateKey(ed, "ci")), ed.Public()},
		"OpenSSH, P-256":              {block(ssh.MarshalPrivateKey(ec, "ci")), ec.Public()},
		"OpenSSH, with a password":    {block(ssh.MarshalPrivateKeyWithPassphrase(ed, "ci", []byte(password))), ed.Public()},
		"cosign, sigstore's PEM type": {block(&pem.Block{Type: "ENCRYPTED SIGSTORE PRIVATE KEY", Bytes: secret}, nil), ec.Public()},
		"cosign, its older PEM type":  {block(&pem.Block{Type: "ENCRYPTED COSIGN PRIVATE KEY", Bytes: secret}, nil), ec.Public()},
	} {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(path, tt.private, 0o600); err != nil {
				t.Fatal(err)
			}
			by, err := publisher.ReadSigner(path, func() ([]byte, error) { return []byte(password), nil })
			if err != nil {
				t.Fatal(err)
			}
			v := signed(t, by, name, newVersion(1, "s"), settings())
			for _, public := range []string{openSSH(t, tt.public), pkix(t, tt.public)} {
				if err := trusting(t, "acme", public).Version(name, v); err != nil {
					t.Error(err)
				}
			}
			if err := trusting(t, "acme", openSSH(t, ed25519Key(t).Public())).Version(name, v); script.KindOf(err) != script.Denied {
				t.Errorf("another key: %v, want %s", err, script.Denied)
			}
			if len(v.Signature) > script.MaxSignatureBytes/3 {
				t.Errorf("the signature has %d bytes", len(v.Signature))
			}
		})
	}
}

func TestKeysThatCannotBeUsed(t *testing.T) {
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	locked, err := ssh.MarshalPrivateKeyWithPassphrase(ed25519Key(t), "", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	rsaDER, err := x509.MarshalPKCS8PrivateKey(large)
	if err != nil {
		t.Fatal(err)
	}
	for what, tt := range map[string]struct {
		data []byte
		want string
	}{
		"no key":           {[]byte("hello"), "ssh-keygen"},
		"an RSA key":       {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: rsaDER}), "want Ed25519"},
		"a wrong password": {pem.EncodeToMemory(locked), "password"},
	} {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, tt.data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := publisher.ReadSigner(path, func() ([]byte, error) { return []byte("wrong"), nil })
		if script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want it to name %s and to say %q", what, err, path, tt.want)
		}
	}
}

func release(active script.Version, s script.Settings, others ...script.Version) *script.Release {
	return &script.Release{Name: name, Revision: 7, Active: active, Retained: append(others, active), Settings: s, Enabled: true}
}

// TestRelease: nothing that decides what a call does can be another thing than was signed.
func TestRelease(t *testing.T) {
	private := ed25519Key(t)
	by := signer(t, private)
	trust := trusting(t, "acme", openSSH(t, private.Public()))
	stranger := signer(t, ed25519Key(t))
	good := signed(t, by, name, newVersion(1, "one"), settings())
	if err := trust.Release(release(good, settings())); err != nil {
		t.Fatalf("as it was signed: %v", err)
	}
	for what, change := range map[string]func(r *script.Release){
		"no signature": func(r *script.Release) { r.Active.Signature = "" },
		"a stranger's": func(r *script.Release) { r.Active = signed(t, stranger, name, r.Active, settings()) },
		"of another source": func(r *script.Release) {
			r.Active.Digest = script.DigestOf([]byte("forged"))
		},
		"of another entrypoint": func(r *script.Release) { r.Active.Entrypoint = "other" },
		"of another engine":     func(r *script.Release) { r.Active.Engine = "other" },
		"of another script":     func(r *script.Release) { r.Name.Script = "other" },
		"of another config":     func(r *script.Release) { r.Settings.Config = json.RawMessage(`{"upstream":"evil"}`) },
		"without its config":    func(r *script.Release) { r.Settings.Config = nil },
		"of other limits":       func(r *script.Release) { r.Settings.Limits.Coroutines = true },
		"of another trigger":    func(r *script.Release) { r.Settings.Trigger.Event = "other" },
		"of another priority":   func(r *script.Release) { r.Settings.Trigger.Priority++ },
		"of another host":       func(r *script.Release) { r.Settings.Trigger.Match.Hosts = []string{"b"} },
		"of a host as a path":   func(r *script.Release) { r.Settings.Trigger.Match = script.Match{PathPrefixes: []string{"a"}} },
		"of no match":           func(r *script.Release) { r.Settings.Trigger.Match = script.Match{} },
		"of another status":     func(r *script.Release) { r.Settings.OnError.Status = 503 },
		"of another body":       func(r *script.Release) { r.Settings.OnError.Body = "x" },
		"of another policy":     func(r *script.Release) { r.Settings.OnError = script.OnError{Policy: script.PolicyOpen} },
		"of another mask":       func(r *script.Release) { r.Settings.Decisions = &script.Decisions{Sample: 0.5} },
		"without its log":       func(r *script.Release) { r.Settings.Decisions = nil },
		"without its onError":   func(r *script.Release) { r.Settings.OnError = script.OnError{} },
		"of other tests":        func(r *script.Release) { r.Settings.Tests[0].Request = json.RawMessage(`{"a":2}`) },
		"an unsigned candidate": func(r *script.Release) {
			r.Candidate = &script.Candidate{Version: newVersion(2, "forged"), Threshold: 1}
		},
		"other tests of the first version": func(r *script.Release) {
			r.Candidate = &script.Candidate{Version: r.Active, Spec: r.Settings.Spec}
			r.Candidate.Spec.Tests = []script.Test{{Name: "forged", Request: json.RawMessage(`{"a":3}`)}}
		},
		"garbage":   func(r *script.Release) { r.Active.Signature = "{" },
		"too large": func(r *script.Release) { r.Active.Signature += strings.Repeat(" ", script.MaxSignatureBytes) },
		"an altered payload": func(r *script.Release) {
			var e map[string]any
			if err := json.Unmarshal([]byte(r.Active.Signature), &e); err != nil {
				t.Fatal(err)
			}
			forged := newVersion(1, "forged")
			other := signed(t, stranger, name, forged, settings())
			var o map[string]any
			if err := json.Unmarshal([]byte(other.Signature), &o); err != nil {
				t.Fatal(err)
			}
			e["payload"] = o["payload"]
			text, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			r.Active = forged
			r.Active.Signature = string(text)
		},
		"another payload type": func(r *script.Release) {
			r.Active.Signature = strings.Replace(r.Active.Signature, publisher.PayloadType, "text/plain", 1)
		},
	} {
		r := release(good, settings())
		change(r)
		err := trust.Release(r)
		if script.KindOf(err) != script.Denied || script.AsError(err).Field != "signature" {
			t.Errorf("%s: %v; want %s of signature", what, err, script.Denied)
		}
	}
	other := release(good, settings())
	other.Name.Tenant = "shop"
	if err := trust.Release(other); err != nil {
		t.Errorf("a tenant that needs no signature: %v", err)
	}
	all := trusting(t, "*", openSSH(t, private.Public()))
	if err := all.Release(other); script.KindOf(err) != script.Denied {
		t.Errorf("of another tenant: %v", err)
	}
}

// TestChoices: the registry chooses among what is signed.
func TestChoices(t *testing.T) {
	private := ed25519Key(t)
	by := signer(t, private)
	trust := trusting(t, "acme", openSSH(t, private.Public()))
	before := settings()
	before.Config = json.RawMessage(`{"upstream":"b"}`)
	one, two := signed(t, by, name, newVersion(1, "one"), before), signed(t, by, name, newVersion(2, "two"), settings())
	r := release(one, settings(), two)
	if err := trust.Release(r); err != nil {
		t.Errorf("an older version, with the settings of a newer one: %v", err)
	}
	r.Settings.Rollout.Steps, r.Settings.HistoryLimit, r.Enabled, r.Pinned = []script.Step{{Percent: 10}}, 3, false, true
	if err := trust.Release(r); err != nil {
		t.Errorf("steps, history, enabled and pinned: %v", err)
	}
	r = release(two, settings(), newVersion(1, "unsigned"))
	if err := trust.Release(r); err != nil {
		t.Errorf("with an unsigned version that does not run: %v", err)
	}
	if got := trust.Signed(*r).Retained; len(got) != 1 || got[0].Number != 2 || len(r.Retained) != 2 {
		t.Errorf("those that may run: %v", got)
	}
	if err := (*publisher.Roots)(nil).Trust().Release(release(newVersion(1, "x"), settings())); err != nil {
		t.Errorf("without roots: %v", err)
	}
}

func TestCovers(t *testing.T) {
	v := signed(t, signer(t, p256(t)), name, newVersion(1, "one"), settings())
	spaced := settings()
	spaced.Config = json.RawMessage(`{ "upstream" : "a" }`)
	if err := publisher.Covers(v.Signature, publisher.StatementOf(name, v, spaced.Spec)); err != nil {
		t.Errorf("with space in the JSON: %v", err)
	}
	withoutLog := settings().Spec
	withoutLog.Decisions = nil
	withoutOnError := settings().Spec
	withoutOnError.OnError = script.OnError{}
	for what, statement := range map[string]publisher.Statement{
		"source":        publisher.StatementOf(name, newVersion(1, "two"), settings().Spec),
		"limits":        publisher.StatementOf(name, v, script.Spec{Trigger: settings().Trigger}),
		"onError":       publisher.StatementOf(name, v, withoutOnError),
		"log.decisions": publisher.StatementOf(name, v, withoutLog),
		"tenant":        publisher.StatementOf(script.Name{Tenant: "shop", Script: "route"}, v, settings().Spec),
		"entrypoint":    publisher.StatementOf(name, script.Version{Digest: v.Digest, Engine: "lua"}, settings().Spec),
	} {
		if err := publisher.Covers(v.Signature, statement); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "of another "+what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestStatements: that of a version without onError, a priority or a log is what it was before there was one.
func TestStatements(t *testing.T) {
	s := script.Spec{Trigger: script.Trigger{Event: "http-request"}}
	v := script.Version{Engine: "lua"}
	const program = `{"tenant":"acme","script":"route","engine":"lua","entrypoint":"","source":"","trigger":"http-request"`
	for _, tt := range []struct {
		onError   script.OnError
		priority  int
		decisions *script.Decisions
		want      string
	}{
		{script.OnError{}, 0, nil, "}"},
		{script.OnError{}, 5, nil, `,"triggerOrder":"sha256:0a53ccb3bb3c960b274e2f015273ed3f0541f0d53cbe19c4cc09a1220a294fe2"}`},
		{script.OnError{}, 0, &script.Decisions{Sample: 0.01, Mask: []string{"a"}}, `,"decisions":"sha256:e4aa8b6337bdc5b07ca1fe5aba6afe564cf43184439c4dec691294493d3258c0"}`},
		{script.OnError{Policy: script.PolicyOpen}, 0, nil, `,"onError":"sha256:c70938c00aa91da0f375be460639613f631864696515608ad6a180e4da1bee97"}`},
	} {
		s.OnError, s.Trigger.Priority, s.Decisions = tt.onError, tt.priority, tt.decisions
		text, err := json.Marshal(publisher.StatementOf(name, v, s))
		if err != nil || string(text) != program+tt.want {
			t.Errorf("%s, %v; want %s", text, err, program+tt.want)
		}
	}
}

// TestSignsTheSame: each time. What is published again is then not signed anew.
func TestSignsTheSame(t *testing.T) {
	for _, private := range []crypto.Signer{p256(t), ed25519Key(t)} {
		by := signer(t, private)
		a, b := signed(t, by, name, newVersion(1, "one"), settings()), signed(t, by, name, newVersion(1, "one"), settings())
		if a.Signature != b.Signature {
			t.Errorf("%T: two signatures of one key differ", private)
		}
	}
}

func TestParseTrust(t *testing.T) {
	key := openSSH(t, ed25519Key(t).Public())
	private, err := ssh.MarshalPrivateKey(ed25519Key(t), "")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                                      "publishers: is missing",
		"publishers: []":                        "publishers: is missing",
		"publisher: []":                         "field publisher not found",
		"publishers: [{tenants: [acme]}]":       "publishers[0].keys: is missing",
		"publishers: [{keys: ['" + key + "']}]": "publishers[0].tenants: is missing",
		"publishers: [{tenants: [Acme], keys: ['" + key + "']}]":                                                                         `"Acme"`,
		"publishers: [{tenants: [acme], keys: ['" + key + "', 'ssh-rsa AAAA']}]":                                                         "publishers[0].keys[1]: is neither",
		"publishers:\n- tenants: [acme]\n  keys:\n  - |\n    " + strings.ReplaceAll(string(pem.EncodeToMemory(private)), "\n", "\n    "): "no private keys",
	} {
		_, err := publisher.ParseTrust([]byte(text))
		if script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v; want %q", text, err, want)
		}
	}
	first, second := ed25519Key(t), ed25519Key(t)
	trust, err := publisher.ParseTrust(fmt.Appendf(nil, "publishers:\n- {tenants: [acme], keys: [%q]}\n- {tenants: ['*'], keys: [%q]}\n",
		openSSH(t, first.Public()), openSSH(t, second.Public())))
	if err != nil {
		t.Fatal(err)
	}
	v := newVersion(1, "one")
	if err := trust.Version(name, signed(t, signer(t, first), name, v, settings())); err != nil {
		t.Error(err)
	}
	if err := trust.Version(name, signed(t, signer(t, second), name, v, settings())); err == nil {
		t.Error("the keys of a later entry are those of a tenant that an earlier one names")
	}
}

// TestKeysAreReadWhole: of what an entry of keys has, all counts, or none of the file.
func TestKeysAreReadWhole(t *testing.T) {
	first, second := p256(t), ed25519Key(t)
	line, other := openSSH(t, first.Public()), openSSH(t, second.Public())
	block, otherBlock := pkix(t, first.Public()), pkix(t, second.Public())
	for what, text := range map[string]string{
		"two lines":                line + "\n" + other,
		"two lines, with comments": "# ours\n\n" + line + " ci@acme\r\n\n# theirs\n" + other + " ci@shop\n",
		"a line after a PEM block": otherBlock + line, "a line before a PEM block": line + "\n" + otherBlock,
		"two PEM blocks":                block + otherBlock,
		"two PEM blocks, with comments": "# ours\n" + block + "# theirs\n" + otherBlock + "\n",
	} {
		trust := trusting(t, "acme", text)
		for _, private := range []crypto.Signer{first, second} {
			if err := trust.Version(name, signed(t, signer(t, private), name, newVersion(1, "s"), settings())); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	for what, text := range map[string]string{
		"a broken line after a key":       line + "\nssh-ed25519 AAAA\n",
		"a broken line before a key":      "ssh-ed25519 AAAA\n" + line,
		"an RSA key beside another":       line + "\nssh-rsa AAAA\n",
		"a broken block after another":    block + strings.Replace(otherBlock, "MC", "!!", 1),
		"a broken block before another":   strings.Replace(otherBlock, "MC", "!!", 1) + block,
		"a block without an end":          block + strings.TrimSuffix(otherBlock, "-----END PUBLIC KEY-----\n"),
		"words between keys":              line + "\ntheirs:\n" + other,
		"comments, and no key":            "# none\n",
		"options that restrict the key":   `from="10.0.0.1" ` + line,
		"a key that is commented, and no": "# " + line,
	} {
		list, err := json.Marshal([]string{text})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := publisher.ParseTrust(fmt.Appendf(nil, "publishers: [{tenants: [acme], keys: %s}]", list)); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "publishers[0].keys[0]") {
			t.Errorf("%s: %v", what, err)
		}
	}
	document := "publishers: [{tenants: [acme], keys: ['" + line + "']}]\n"
	for what, text := range map[string]string{
		"two documents":                 document + "---\n" + document,
		"an empty document after":       document + "---\n",
		"a document that is no YAML":    document + "---\n[",
		"an empty document before":      "---\n---\n" + document,
		"the publishers are said twice": document + document,
	} {
		if _, err := publisher.ParseTrust([]byte(text)); script.KindOf(err) != script.Invalid {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// BenchmarkRelease is what a release costs an agent that verifies it.
func BenchmarkRelease(b *testing.B) {
	for what, private := range map[string]crypto.Signer{"Ed25519": ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), "P-256": p256(b)} {
		b.Run(what, func(b *testing.B) {
			trust := trusting(b, "acme", openSSH(b, private.Public()))
			r := release(signed(b, signer(b, private), name, newVersion(1, "one"), settings()), settings())
			for b.Loop() {
				if err := trust.Release(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// FuzzSignature: whatever somebody writes as a signature is not believed, and breaks nothing.
func FuzzSignature(f *testing.F) {
	by, private := signer(f, p256(f)), ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	trust := trusting(f, "acme", openSSH(f, private.Public()))
	f.Add(signed(f, by, name, newVersion(1, "one"), settings()).Signature)
	f.Add("{}")
	f.Add(`{"payloadType":"application/vnd.scriptorium.version.v1+json","payload":"e30=","signatures":[{"sig":"AAAA"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		v := newVersion(1, "one")
		v.Signature = text
		if err := trust.Release(release(v, settings())); script.KindOf(err) != script.Denied {
			t.Errorf("%q: %v", text, err)
		}
		_ = publisher.Covers(text, publisher.StatementOf(name, v, settings().Spec))
		_ = publisher.SignedBy(text)
	})
}
