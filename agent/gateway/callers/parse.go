package callers

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of a file.
const (
	maxBytes   = 1 << 20
	maxCallers = 1000
)

type document struct {
	Callers []entry `yaml:"callers"`
}

type entry struct {
	Name         string        `yaml:"name"`
	Tokens       []string      `yaml:"tokens"` // their digests
	Certificates []certificate `yaml:"certificates"`
	Tenants      []string      `yaml:"tenants"`
}

// Load reads the callers in the file. Errors are Invalid and name the file.
func Load(path string) (*Callers, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, script.Errorf(script.Invalid, path, "cannot be read: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, script.Errorf(script.Invalid, path, "cannot be read: %w", err)
	}
	return Parse(path, data)
}

// Parse reads callers in YAML; docs/security.md describes it. name stands for the file in errors, which are
// Invalid and never repeat what may be a token.
func Parse(name string, data []byte) (*Callers, error) {
	bad := func(format string, args ...any) error { return script.Errorf(script.Invalid, name, format, args...) }
	if len(data) > maxBytes {
		return nil, bad("has more than %d bytes", maxBytes)
	}
	var d document
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&d); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, bad("is empty: want callers")
		}
		return nil, bad("is not a list of callers: %s", withoutValues(err))
	}
	if err := decoder.Decode(new(document)); !errors.Is(err, io.EOF) {
		return nil, bad("has more than one document")
	}
	if len(d.Callers) == 0 || len(d.Callers) > maxCallers {
		return nil, bad("has %d callers: want 1 to %d", len(d.Callers), maxCallers)
	}
	c := &Callers{tokens: map[[sha256.Size]byte]gateway.Grant{}}
	names := map[string]bool{}
	for i, e := range d.Callers {
		if err := c.add(e); err != nil {
			return nil, bad("callers[%d]: %w", i, err)
		}
		if names[e.Name] {
			return nil, bad("callers[%d]: another caller has the name %q", i, e.Name)
		}
		names[e.Name] = true
	}
	return c, nil
}

// yamlValue is a value in an error of the YAML decoder. It may be a token.
var yamlValue = regexp.MustCompile("`[^`]*`")

func withoutValues(err error) string { return yamlValue.ReplaceAllString(err.Error(), "a value") }

var callerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@/:-]{0,62}$`)

func (c *Callers) add(e entry) error {
	if !callerName.MatchString(e.Name) {
		return errors.New("name: want 1 to 63 letters, digits and ._@/:-")
	}
	if len(e.Tokens)+len(e.Certificates) == 0 {
		return errors.New("nobody can be this caller: give it tokens or certificates")
	}
	if len(e.Tenants) == 0 {
		return errors.New(`tenants: is missing: name tenants, or ["*"] for all of them`)
	}
	tenants, err := script.ParseSelector(e.Tenants)
	if err != nil {
		return err
	}
	known := caller{
		grant:        gateway.GrantTo("caller "+e.Name, tenants, "the file of agentd --http-callers does not grant it"),
		certificates: e.Certificates,
	}
	for i, cert := range e.Certificates {
		if cert == (certificate{}) {
			return fmt.Errorf("certificates[%d]: want commonName, dns or uri", i)
		}
	}
	for i, text := range e.Tokens {
		digest, err := digestOf(text)
		if err != nil {
			return fmt.Errorf("tokens[%d]: %w", i, err)
		}
		if _, ok := c.tokens[digest]; ok {
			return fmt.Errorf("tokens[%d]: is in the file twice: a token belongs to one caller", i)
		}
		c.tokens[digest] = known.grant
	}
	c.callers = append(c.callers, known)
	return nil
}

// digestOf reads the digest of a token.
func digestOf(text string) (digest [sha256.Size]byte, err error) {
	digits, ok := strings.CutPrefix(text, "sha256:")
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) != sha256.Size {
		return digest, errors.New("is not the digest of a token: want sha256: and 64 hexadecimal digits, as scriptctl token prints it")
	}
	digest = [sha256.Size]byte(raw)
	if digest == sha256.Sum256(nil) {
		return digest, errors.New("is the digest of nothing")
	}
	return digest, nil
}
