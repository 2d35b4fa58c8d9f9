package publisher

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Trust says whose signatures the scripts of a tenant need. The nil Trust asks for none.
// It is immutable.
type Trust struct {
	rules    []rule
	verified bool // by somebody else: versions need signatures, by whatever keys
}

// Verified is for those who get versions whose signatures somebody has verified: it asks that
// versions be what their signatures say.
var Verified = &Trust{verified: true}

// rule is what holds for the tenants that it selects, unless one before it does.
type rule struct {
	tenants script.Selector
	keys    []key
}

// Bounds of a file of keys, and of an envelope.
const (
	maxTrustBytes = 1 << 20
	maxSignatures = 8
)

// LoadTrust reads the file of tenants' keys: see ParseTrust.
func LoadTrust(path string) (*Trust, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, script.Errorf(script.Invalid, path, "cannot be read: %w", err)
	}
	t, err := ParseTrust(data)
	if err != nil {
		return nil, script.Errorf(script.Invalid, path, "%w", err)
	}
	return t, nil
}

// ParseTrust reads tenants' keys in YAML; docs/signatures.md describes it. Errors name the
// field.
func ParseTrust(data []byte) (*Trust, error) {
	if len(data) > maxTrustBytes {
		return nil, script.Errorf(script.Invalid, "", "has %d bytes, at most %d are allowed", len(data), maxTrustBytes)
	}
	var file struct {
		Publishers []struct {
			Tenants []string `yaml:"tenants"`
			Keys    []string `yaml:"keys"`
		} `yaml:"publishers"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, script.Errorf(script.Invalid, "", "cannot be read: %s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, script.Errorf(script.Invalid, "", "has more than one YAML document: put all publishers into one")
	}
	if len(file.Publishers) == 0 {
		return nil, script.Errorf(script.Invalid, "publishers", "is missing: name tenants and the keys of those who publish for them")
	}
	t := &Trust{}
	for i, p := range file.Publishers {
		at := fmt.Sprintf("publishers[%d]", i)
		if len(p.Tenants) == 0 {
			return nil, script.Errorf(script.Invalid, at+".tenants", `is missing: name tenants, or write ["*"] for all`)
		}
		if len(p.Keys) == 0 {
			return nil, script.Errorf(script.Invalid, at+".keys", "is missing: without a key none of the tenants' scripts could run")
		}
		tenants, err := script.ParseSelector(p.Tenants)
		if err != nil {
			return nil, script.Errorf(script.Invalid, at, "%w", err)
		}
		r := rule{tenants: tenants}
		for j, text := range p.Keys {
			keys, err := parseKeys(text)
			if err != nil {
				return nil, script.Errorf(script.Invalid, fmt.Sprintf("%s.keys[%d]", at, j), "%w", err)
			}
			r.keys = append(r.keys, keys...)
		}
		t.rules = append(t.rules, r)
	}
	return t, nil
}

// keysOf returns the keys of the first rule for the tenant; required is false if there is none.
func (t *Trust) keysOf(tenant string) (keys []key, required bool) {
	if t == nil || t.verified {
		return nil, t != nil
	}
	for _, r := range t.rules {
		if r.tenants.Matches(tenant) {
			return r.keys, true
		}
	}
	return nil, false
}

// KeyIDs yields the tenants of each rule, and the ids of their publishers' keys.
func (t *Trust) KeyIDs(yield func(tenants script.Selector, ids []string) bool) {
	if t == nil {
		return
	}
	for _, r := range t.rules {
		ids := make([]string, len(r.keys))
		for i, k := range r.keys {
			ids[i] = k.id
		}
		if !yield(r.tenants, ids) {
			return
		}
	}
}

// Requires reports whether versions of the tenant's scripts need a signature.
func (t *Trust) Requires(tenant string) bool {
	_, required := t.keysOf(tenant)
	return required
}

// Version returns a Denied error if the version of the script needs a signature and has
// none, of the program, by a key that is trusted.
func (t *Trust) Version(name script.Name, v script.Version) error {
	_, err := t.version(name, v)
	return err
}

// version also returns the statement; nil if the version needs no signature.
func (t *Trust) version(name script.Name, v script.Version) (*Statement, error) {
	keys, required := t.keysOf(name.Tenant)
	if !required {
		return nil, nil
	}
	refuse := func(format string, args ...any) error {
		return script.Errorf(script.Denied, field, "version %d of %s %s", v.Number, name, fmt.Sprintf(format, args...))
	}
	if v.Signature == "" {
		return nil, refuse("is not signed, as tenant %s requires: sign it (scriptctl sign, or publish --sign)", name.Tenant)
	}
	o, err := open(v.Signature)
	if err != nil {
		return nil, refuse("has a signature that cannot be read: %v", err)
	}
	if !t.verified && !o.signedBy(keys) {
		return nil, refuse("is not signed by a key of tenant %s in --tenant-keys; the signature names %s", name.Tenant, strings.Join(printable(SignedBy(v.Signature)), ", "))
	}
	if what := o.statement.differs(Statement{programOf(name, v), o.statement.Settings}); what != "" {
		return nil, refuse("has the signature of another %s", what)
	}
	return &o.statement, nil
}

// signedBy reports whether one of the keys has signed the envelope.
func (o *opened) signedBy(keys []key) bool {
	message := dsse.PAE(o.envelope.PayloadType, o.payload)
	for _, s := range o.envelope.Signatures[:min(maxSignatures, len(o.envelope.Signatures))] {
		signature, err := base64.StdEncoding.DecodeString(s.Sig)
		if err != nil {
			continue
		}
		for _, k := range keys {
			// An id is a hint. Other tools leave it out, or have others.
			if (s.KeyID == "" || s.KeyID == k.id || !strings.HasPrefix(s.KeyID, "SHA256:")) && k.verifies(message, signature) {
				return true
			}
		}
	}
	return false
}

// printable returns ids that strangers wrote as people can be shown them.
func printable(ids []string) []string {
	shown := make([]string, 0, min(maxSignatures, len(ids)))
	for _, id := range ids[:min(maxSignatures, len(ids))] {
		shown = append(shown, fmt.Sprintf("%.64q", id))
	}
	return shown
}

// Release returns a Denied error unless publishers have signed all that the release may run: the
// active version and the candidate, and what each runs with together with some retained version.
// Versions from before registries recorded what they run with have that of others.
func (t *Trust) Release(r *script.Release) error {
	if r.Deleted || !t.Requires(r.Name.Tenant) {
		return nil
	}
	if err := t.Runs(r, r.Active, SettingsOf(r.Settings.Spec)); err != nil {
		return err
	}
	if c := r.Candidate; c != nil && (c.Version.Number != r.Active.Number || !c.Spec.Equal(r.Settings.Spec)) {
		return t.Runs(r, c.Version, SettingsOf(c.Spec))
	}
	return nil
}

// Runs returns a Denied error unless publishers have signed the version of the release, and what
// it is to run with together with some retained version.
func (t *Trust) Runs(r *script.Release, v script.Version, want Settings) error {
	s, err := t.version(r.Name, v)
	if err != nil || s == nil {
		return err
	}
	differs := s.differs(Statement{s.Program, want})
	if differs == "" {
		return nil
	}
	for _, v := range slices.Backward(r.Retained) {
		if s, err := t.version(r.Name, v); err == nil && s.Settings == want {
			return nil
		}
	}
	return script.Errorf(script.Denied, field, "the %s of %s, revision %d, is not what a publisher has signed: sign it (scriptctl sign, or publish --sign)", differs, r.Name, r.Revision)
}

// Signed returns the release without the retained versions that may not run. What is live
// stays, and so does its candidate: whether they may run was decided when they went live.
func (t *Trust) Signed(r script.Release) script.Release {
	if !t.Requires(r.Name.Tenant) {
		return r
	}
	r.Retained = slices.DeleteFunc(slices.Clone(r.Retained), func(v script.Version) bool {
		candidate := r.Candidate != nil && v.Number == r.Candidate.Version.Number
		return v.Number != r.Active.Number && !candidate && t.Version(r.Name, v) != nil
	})
	return r
}

// Roots hold the Trust, which can be replaced while it is used. The nil Roots ask for no
// signatures.
type Roots struct{ trust atomic.Pointer[Trust] }

// NewRoots returns roots that trust t.
func NewRoots(t *Trust) *Roots {
	r := &Roots{}
	r.trust.Store(t)
	return r
}

// Replace trusts t from now on.
func (r *Roots) Replace(t *Trust) { r.trust.Store(t) }

// Trust returns whom to trust now.
func (r *Roots) Trust() *Trust {
	if r == nil {
		return nil
	}
	return r.trust.Load()
}
